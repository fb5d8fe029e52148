"""From the rows of one job to the brief: selection and order, and not a word of its own."""

from __future__ import annotations

from dataclasses import replace

from pipeline.brief import wording
from pipeline.brief.bottom_line import choose
from pipeline.brief.changes import Judge, compare
from pipeline.brief.coverage import Division, divide, measure
from pipeline.brief.document import SCHEMA, Brief, ComparisonBasis, Header
from pipeline.brief.exposure import expose
from pipeline.brief.past import PastBrief
from pipeline.brief.provenance import trace
from pipeline.brief.seams import Ownership
from pipeline.brief.selection import holding_refs, select
from pipeline.brief.status import tell
from pipeline.brief.timeline import draw
from pipeline.records import Dossier

REHEARSAL = "rehearsal"


def assemble(
    dossier: Dossier,
    *,
    release: str,
    likeness: Judge,
    previous: PastBrief | None = None,
    against: PastBrief | None = None,
) -> Brief:
    """Pure: the same rows, the same release and the same other briefs give an equal brief.

    `previous` is the job's own brief before this one, `against` one of another job that was asked
    for; changes are counted against each.
    """
    ownership = Ownership(dossier.units)
    division = divide(dossier, ownership.units)
    selection = select(dossier, ownership, likeness)
    is_rehearsal = REHEARSAL in _engine_names(dossier)
    brief = Brief(
        schema=SCHEMA,
        header=_header(dossier, division, is_rehearsal=is_rehearsal),
        status=tell(dossier, division),
        bottom_line=choose(selection.findings),
        exposure=expose(dossier.holdings, selection.findings, division),
        findings=selection.findings,
        timeline=draw(ownership.units, division, selection.findings),
        coverage=measure(dossier, ownership.units, division),
        changes=(),
        method=(*wording.METHOD, *((wording.REHEARSAL_METHOD,) if is_rehearsal else ())),
        evidence=selection.evidence,
        provenance=trace(dossier, ownership, selection, release=release),
    )
    return compared(brief, dossier, likeness=likeness, previous=previous, against=against)


def compared(
    brief: Brief,
    dossier: Dossier,
    *,
    likeness: Judge,
    previous: PastBrief | None,
    against: PastBrief | None,
) -> Brief:
    """The brief of these rows with its changes counted; the rest of it stays as it is."""
    bases = (
        (ComparisonBasis.PREVIOUS_BRIEF, previous),
        (ComparisonBasis.JOB, against),
    )
    holdings = holding_refs(dossier.holdings)
    changes = tuple(
        compare(brief.findings, past, basis, holdings=holdings, likeness=likeness)
        for basis, past in bases
        if past is not None
    )
    return replace(brief, changes=changes)


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
