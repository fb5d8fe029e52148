"""The evidence and the findings of a job, of all its epochs, as the ledger has them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TypeVar

from flask import Response, url_for
from flask_openapi3.blueprint import APIBlueprint
from flask_openapi3.models.tag import Tag
from pydantic import Field

from api import access
from api.answers import answer
from api.documented import Answer, Strict, problems
from api.jobs import JobPath
from api.limits import ROWS_MAX
from api.notes import key_text
from api.service import service
from pipeline.brief.links import media_fragment, play_interval, player_offset_ms
from pipeline.ledger import notes, views
from pipeline.ledger.errors import CursorRefused
from pipeline.ledger.texts import TextKey
from pipeline.ledger.views import JobView
from pipeline.records import (
    Evidence,
    EvidenceKind,
    Finding,
    FindingNote,
    JobState,
    NoteState,
    Origin,
)

_CURSOR = re.compile("([0-9]{1,9})[.]([0-9]{1,9})[.]([0-9]{1,9})")

Text = TypeVar("Text", Evidence, Finding)

blueprint = APIBlueprint(
    "texts",
    __name__,
    url_prefix="/v1/jobs",
    abp_tags=[Tag(name="evidence", description="What was observed, and where.")],
)


class TextsQuery(Strict):
    after: str | None = Field(None, max_length=500, description="`next` of the page before.")
    limit: int = Field(200, ge=1, le=ROWS_MAX)


class FrameAnswer(Answer):
    """A frame that a text names."""

    sha256: str
    source_ms: int
    width_px: int
    height_px: int
    href: str


class SourceAnswer(Answer):
    """Where a text comes from, on the source clock."""

    start_ms: int = Field(description="Start of the interval that it can have drawn on.")
    end_ms: int
    generated_start_ms: int = Field(description="Start of the units that it was said in.")
    generated_end_ms: int
    available_from_ms: int
    first_sequence: int
    last_sequence: int
    frames: list[FrameAnswer]
    play: str | None = Field(
        description="Address of the moment in the recording, on the clock of a browser's player."
    )


class MarkAnswer(Answer):
    """Something that a reader has to know of a text."""

    code: str = Field(examples=["secret_masked"])
    count: int


class EvidenceAnswer(Answer):
    """Public text that is no finding."""

    epoch: int
    turn: int
    block: int
    kind: EvidenceKind
    text: str = Field(description="Without what was held back.")
    marks: list[MarkAnswer]
    source: SourceAnswer


class FindingAnswer(Answer):
    """A portfolio conclusion."""

    key: str = Field(description="Names it within the job: epoch, turn and block.")
    epoch: int
    turn: int
    block: int
    holding_ids: list[str]
    unmatched: list[str]
    ambiguous: list[str]
    evidence: str
    is_audio_evidence: bool
    implication: str
    uncertainty: str
    verification: str
    is_closed: bool
    text: str = Field(description="The block as the engine wrote it, without what was held back.")
    marks: list[MarkAnswer]
    state: NoteState = Field(description="What people made of it, by their newest decision.")
    note_count: int
    source: SourceAnswer


class EvidencesAnswer(Answer):
    """A page of evidence; empty until there is some."""

    state: JobState
    evidence: list[EvidenceAnswer]
    next: str | None = Field(description="Give it as `after`; null where nothing follows yet.")


class FindingsAnswer(Answer):
    """A page of findings, those too that the brief leaves out; empty until there are some."""

    state: JobState
    findings: list[FindingAnswer]
    next: str | None = Field(description="Give it as `after`; null where nothing follows yet.")


@blueprint.get("/<job_id>/evidence", responses={200: EvidencesAnswer, **problems(404, 422)})
def evidence(path: JobPath, query: TextsQuery) -> Response:
    """List evidence"""
    view = views.get(service().database, path.job_id, owner=access.sight())
    found = views.evidence(
        service().database, view.id, after=_read_cursor(query.after), limit=query.limit + 1
    )
    page, following = _page(found, query.limit)
    return answer(
        EvidencesAnswer(
            state=view.state, evidence=[_evidence(view, text) for text in page], next=following
        )
    )


@blueprint.get("/<job_id>/findings", responses={200: FindingsAnswer, **problems(404, 422)})
def findings(path: JobPath, query: TextsQuery) -> Response:
    """List findings"""
    view = views.get(service().database, path.job_id, owner=access.sight())
    found = views.findings(
        service().database, view.id, after=_read_cursor(query.after), limit=query.limit + 1
    )
    page, following = _page(found, query.limit)
    log = _notes(view.id)
    return answer(
        FindingsAnswer(
            state=view.state,
            findings=[
                _finding(view, text, log.get((text.epoch, text.turn, text.block), ()))
                for text in page
            ],
            next=following,
        )
    )


def _notes(job_id: str) -> Mapping[TextKey, Sequence[FindingNote]]:
    found: defaultdict[TextKey, list[FindingNote]] = defaultdict(list)
    for note in notes.of_job(service().database, job_id):
        found[note.epoch, note.turn, note.block].append(note)
    return found


def _page(found: Sequence[Text], limit: int) -> tuple[Sequence[Text], str | None]:
    page = found[:limit]
    if len(found) <= limit:
        return page, None
    last = page[-1]
    return page, f"{last.epoch}.{last.turn}.{last.block}"


def _read_cursor(cursor: str | None) -> tuple[int, int, int] | None:
    if cursor is None:
        return None
    found = _CURSOR.fullmatch(cursor)
    if found is None:
        raise CursorRefused
    return int(found.group(1)), int(found.group(2)), int(found.group(3))


def _evidence(view: JobView, text: Evidence) -> EvidenceAnswer:
    return EvidenceAnswer(
        epoch=text.epoch,
        turn=text.turn,
        block=text.block,
        kind=text.kind,
        text=text.text,
        marks=_marks(text),
        source=_source(view, text.origin),
    )


def _finding(view: JobView, text: Finding, log: Sequence[FindingNote]) -> FindingAnswer:
    return FindingAnswer(
        key=key_text((text.epoch, text.turn, text.block)),
        epoch=text.epoch,
        turn=text.turn,
        block=text.block,
        holding_ids=list(text.holding_ids),
        unmatched=list(text.unmatched),
        ambiguous=list(text.ambiguous),
        evidence=text.evidence,
        is_audio_evidence=text.is_audio_evidence,
        implication=text.implication,
        uncertainty=text.uncertainty,
        verification=text.verification,
        is_closed=text.is_closed,
        text=text.text,
        marks=_marks(text),
        state=NoteState.after(note.action for note in log),
        note_count=len(log),
        source=_source(view, text.origin),
    )


def _marks(text: Evidence | Finding) -> list[MarkAnswer]:
    return [MarkAnswer(code=mark.code, count=mark.count) for mark in text.marks]


def _source(view: JobView, origin: Origin) -> SourceAnswer:
    recording_id = view.recording_id
    start_ms, end_ms = play_interval(origin)
    offset_ms = player_offset_ms(view.origin_ms)
    fragment = media_fragment(start_ms + offset_ms, end_ms + offset_ms)
    return SourceAnswer(
        start_ms=origin.interval.start_ms,
        end_ms=origin.interval.end_ms,
        generated_start_ms=origin.generated_in.start_ms,
        generated_end_ms=origin.generated_in.end_ms,
        available_from_ms=origin.available_from_ms,
        first_sequence=origin.first_sequence,
        last_sequence=origin.last_sequence,
        frames=[
            FrameAnswer(
                sha256=frame.sha256,
                source_ms=frame.source_ms,
                width_px=frame.width_px,
                height_px=frame.height_px,
                href=url_for("frames.fetch", job_id=view.id, sha256=frame.sha256),
            )
            for frame in origin.frames
        ],
        play=recording_id and f"{url_for('media.fetch', recording_id=recording_id)}#{fragment}",
    )
