"""Where a list goes on that is ordered by when its rows were made, the newest first."""

from __future__ import annotations

import base64
import binascii
import json
from datetime import datetime
from uuid import UUID

from pipeline.ledger.errors import CursorRefused


def after(created_at: datetime, row_id: str) -> str:
    """Names the last row of a page."""
    place = json.dumps([created_at.isoformat(), row_id])
    return base64.urlsafe_b64encode(place.encode()).decode().rstrip("=")


def read(cursor: str) -> tuple[datetime, str]:
    """Raises CursorRefused for what no list has given."""
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        created_at, row_id = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
        place = datetime.fromisoformat(created_at), str(UUID(row_id))
    except (ValueError, TypeError, AttributeError, binascii.Error, RecursionError):
        raise CursorRefused from None
    if place[0].tzinfo is None:
        raise CursorRefused
    return place
