"""From the rows of one job to the brief: selection and order, and not a word of its own."""

from __future__ import annotations

from pipeline.brief import wording
from pipeline.brief.coverage import Division, divide, measure
from pipeline.brief.document import SCHEMA, Brief, Header
from pipeline.brief.exposure import expose
from pipeline.brief.provenance import trace
from pipeline.brief.seams import Ownership
from pipeline.brief.selection import select
from pipeline.brief.status import tell
from pipeline.records import Dossier

REHEARSAL = "rehearsal"


def assemble(dossier: Dossier, *, release: str) -> Brief:
    """Pure: the same rows and the same release give an equal brief."""
    ownership = Ownership(dossier.units)
    division = divide(dossier, ownership.units)
    selection = select(dossier, ownership)
    is_rehearsal = REHEARSAL in _engine_names(dossier)
    return Brief(
        schema=SCHEMA,
        header=_header(dossier, division, is_rehearsal=is_rehearsal),
        status=tell(dossier, division),
        findings=selection.findings,
        exposure=expose(dossier.holdings, selection.findings, division),
        evidence=selection.evidence,
        coverage=measure(dossier, ownership.units, division),
        method=(*wording.METHOD, *((wording.REHEARSAL_METHOD,) if is_rehearsal else ())),
        provenance=trace(dossier, ownership, selection, release=release),
    )


def _engine_names(dossier: Dossier) -> set[str]:
    return {dossier.request.engine, *(epoch.engine.name for epoch in dossier.epochs)}


def _header(dossier: Dossier, division: Division, *, is_rehearsal: bool) -> Header:
    request, recording = dossier.request, dossier.recording
    engines = sorted({f"{epoch.engine.name} {epoch.engine.revision}" for epoch in dossier.epochs})
    return Header(
        name=request.title or recording.filename,
        title=request.title,
        filename=recording.filename,
        event_date=request.event_date.isoformat() if request.event_date else None,
        objective=request.objective,
        duration=division.end,
        recording_sha256=recording.sha256,
        recording_size_bytes=recording.size_bytes,
        portfolio_sha256=dossier.portfolio_sha256,
        holding_count=len(dossier.holdings),
        epoch_count=len(dossier.epochs),
        engines=tuple(engines) or (request.engine,),
        banner=wording.REHEARSAL_BANNER if is_rehearsal else None,
    )
