"""Which release of OmnAI this is, for whoever publishes a brief."""

from __future__ import annotations

RELEASE = "0.1.0"
