"""Bounds of the HTTP service that are not an installation's to choose, each with its reason."""

from __future__ import annotations

JSON_BYTES_MAX = 3 * 1024**2
"""A portfolio file of 1 MiB as a JSON string, every third character escaped, with room."""

UPLOAD_OVERHEAD_BYTES = 64 * 1024
"""Boundaries, part headers and small fields around the file of a multipart upload."""

FIELD_BYTES_MAX = 8 * 1024
"""A small field beside the file; none that is read is longer than a token."""

PAGE_MAX = 200
"""Jobs in one answer."""

ROWS_MAX = 1_000
"""Units, evidence or findings in one answer: about 17 minutes of units."""

WAIT_S_MAX = 60
"""Proxies give up on a silent request after a minute or little more."""

IDEMPOTENCY_KEY_CHARS_MAX = 200
"""A UUID has 36; this leaves room for names with a prefix."""
