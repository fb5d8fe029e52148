"""Ids as they come from outside: what is no UUID names nothing and need not reach the database."""

from __future__ import annotations

import uuid


def is_id(text: str) -> bool:
    """Whether this is a UUID in the one form that OmnAI gives out."""
    try:
        return str(uuid.UUID(text)) == text
    except ValueError:
        return False
