"""An earlier brief, as much of it as changes are counted against."""

from __future__ import annotations

import json
from dataclasses import dataclass

from pipeline.brief.document import SCHEMA, HoldingName
from pipeline.plain import from_plain
from pipeline.records import Claim

READ_SCHEMAS = ("omnai.brief/1", SCHEMA)


@dataclass(frozen=True, kw_only=True)
class PastFinding:
    """A finding as the earlier brief listed it."""

    ref: str
    holdings: tuple[HoldingName, ...]
    observed: str
    implication: str

    @property
    def claim(self) -> Claim:
        return Claim(
            holding_ids=tuple(holding.id for holding in self.holdings),
            evidence=self.observed,
            implication=self.implication,
        )


@dataclass(frozen=True, kw_only=True)
class PastBrief:
    """A stored brief."""

    job_id: str
    revision: int
    title: str
    """What it calls its recording."""
    sha256: str
    findings: tuple[PastFinding, ...]


def read_past(document: bytes, *, revision: int, job_id: str) -> PastBrief | None:
    """None where the document is none that this release can read."""
    try:
        stored = json.loads(document)
        if not isinstance(stored, dict) or stored.get("schema") not in READ_SCHEMAS:
            return None
        found = from_plain(_Document, stored, is_from_later=True)
    except (ValueError, RecursionError):
        return None
    return PastBrief(
        job_id=job_id,
        revision=revision,
        title=found.header.name,
        sha256=found.sha256,
        findings=found.findings,
    )


@dataclass(frozen=True, kw_only=True)
class _Header:
    name: str


@dataclass(frozen=True, kw_only=True)
class _Document:
    """What is read of a stored document; the rest is passed over."""

    sha256: str
    header: _Header
    findings: tuple[PastFinding, ...]
