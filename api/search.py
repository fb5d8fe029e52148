"""Search: the findings of the caller's jobs, by holding, words, time and state."""

from __future__ import annotations

from datetime import date, datetime, time, timezone

from flask import Response, url_for
from flask_openapi3.blueprint import APIBlueprint
from flask_openapi3.models.tag import Tag
from pydantic import Field

from api import access
from api.answers import answer
from api.documented import Answer, Strict, problems
from api.limits import PAGE_MAX
from api.notes import key_text
from api.service import service
from pipeline.brief.links import media_fragment, play_interval, player_offset_ms
from pipeline.errors import InputRefused, Problem
from pipeline.ledger import search
from pipeline.ledger.ids import is_id
from pipeline.ledger.search import Filters, Hit
from pipeline.ledger.words import Query, parse, whole
from pipeline.records import JobState, NoteState

TEXT_CHARS_MAX = 200
HOLDING_CHARS_MAX = 200
"""As long as a name may be that somebody types."""

DAY = "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"

blueprint = APIBlueprint(
    "search",
    __name__,
    url_prefix="/v1/findings",
    abp_tags=[Tag(name="findings", description="What was found, in all jobs at once.")],
)


class SearchQuery(Strict):
    text: str | None = Field(
        None,
        max_length=TEXT_CHARS_MAX,
        description='Words as web searches take them: word, "a phrase", -without, this OR that. A '
        "word is found by its beginning; in scripts without spaces, anywhere.",
    )
    holding: str | None = Field(
        None,
        max_length=HOLDING_CHARS_MAX,
        description="Id, ticker, `EXCHANGE:TICKER`, name or alias; whole words of them are enough.",
    )
    submitted_from: str | None = Field(
        None, pattern=DAY, description="First day of submission, in UTC, as YYYY-MM-DD."
    )
    submitted_to: str | None = Field(
        None, pattern=DAY, description="Last day of submission, in UTC, as YYYY-MM-DD."
    )
    recording_id: str | None = Field(None, max_length=100)
    job_state: JobState | None = None
    state: NoteState | None = Field(None, description="What people made of the finding.")
    after: str | None = Field(None, max_length=500, description="`next` of the page before.")
    limit: int = Field(50, ge=1, le=PAGE_MAX)


class HitHolding(Answer):
    """A holding that a finding names."""

    id: str
    name: str
    ticker: str | None


class HitLinks(Answer):
    """Where the finding's rest lies."""

    job: str
    notes: str
    play: str | None = Field(
        description="Address of the moment in the recording, on the clock of a browser's player."
    )


class HitAnswer(Answer):
    """A finding, and the job it is of."""

    job_id: str
    title: str | None
    filename: str
    event_date: date | None
    job_state: JobState
    submitted_at: datetime
    key: str
    holdings: list[HitHolding]
    evidence: str
    is_audio_evidence: bool
    implication: str
    start_ms: int = Field(description="Start of the interval that it can have drawn on.")
    end_ms: int
    generated_start_ms: int = Field(description="Start of the units that it was said in.")
    state: NoteState
    note_count: int
    links: HitLinks


class HitsAnswer(Answer):
    """A page of findings, those of the newest job first."""

    findings: list[HitAnswer]
    next: str | None = Field(description="Give it as `after` for the next page; null at the end.")


@blueprint.get("", responses={200: HitsAnswer, **problems(422)})
def found(query: SearchQuery) -> Response:
    """Search findings

    In one's own jobs, and for an admin in everybody's. What a later epoch has taken the place of is
    left out.
    """
    page, following = search.findings(
        service().database,
        filters_of(query),
        owner=access.sight(),
        after=query.after,
        limit=query.limit,
    )
    return answer(HitsAnswer(findings=[_hit(hit) for hit in page], next=following))


def filters_of(query: SearchQuery) -> Filters:
    """Raises InputRefused for filters that nothing could fit."""
    wrong: list[Problem] = []
    typed = _query(query.text, wrong)
    if query.holding is not None and not whole(query.holding):
        wrong.append(_without_word("holding"))
    if query.recording_id is not None and not is_id(query.recording_id):
        message = "it is no id of a recording"
        wrong.append(Problem(code="recording_unknown", where="recording_id", message=message))
    begin = _day("submitted_from", query.submitted_from, time.min, wrong)
    last = _day("submitted_to", query.submitted_to, time.max, wrong)
    if wrong:
        raise InputRefused(*wrong)
    return Filters(
        query=typed,
        holding=query.holding,
        submitted_from=begin,
        submitted_to=last,
        recording_id=query.recording_id,
        job_state=query.job_state,
        state=query.state,
    )


def moment(hit: Hit) -> str:
    """The fragment of the moment on the clock of a browser's player."""
    start_ms, end_ms = play_interval(hit.origin)
    offset_ms = player_offset_ms(hit.origin_ms)
    return media_fragment(start_ms + offset_ms, end_ms + offset_ms)


def play_href(hit: Hit) -> str | None:
    if hit.recording_id is None:
        return None
    return f"{url_for('media.fetch', recording_id=hit.recording_id)}#{moment(hit)}"


def _query(text: str | None, wrong: list[Problem]) -> Query | None:
    if text is None:
        return None
    typed = parse(text)
    if not typed.wanted and not typed.unwanted:
        wrong.append(_without_word("text"))
    return typed


def _without_word(where: str) -> Problem:
    message = "there is no letter, digit or sign in it to search for; leave it out, or give a word"
    return Problem(code="word_missing", where=where, message=message)


def _day(where: str, day: str | None, at: time, wrong: list[Problem]) -> datetime | None:
    if day is None:
        return None
    try:
        return datetime.combine(date.fromisoformat(day), at, timezone.utc)
    except ValueError:
        message = "it is no day of the calendar as YYYY-MM-DD, for example 2026-03-31"
        wrong.append(Problem(code="day_invalid", where=where, message=message))
        return None


def _hit(hit: Hit) -> HitAnswer:
    key = key_text((hit.epoch, hit.turn, hit.block))
    return HitAnswer(
        job_id=hit.job_id,
        title=hit.title,
        filename=hit.filename,
        event_date=hit.event_date,
        job_state=hit.job_state,
        submitted_at=hit.submitted_at,
        key=key,
        holdings=[
            HitHolding(id=holding.id, name=holding.name, ticker=holding.ticker)
            for holding in hit.holdings
        ],
        evidence=hit.evidence,
        is_audio_evidence=hit.is_audio_evidence,
        implication=hit.implication,
        start_ms=hit.origin.interval.start_ms,
        end_ms=hit.origin.interval.end_ms,
        generated_start_ms=hit.origin.generated_in.start_ms,
        state=hit.state,
        note_count=hit.note_count,
        links=HitLinks(
            job=url_for("jobs.show", job_id=hit.job_id),
            notes=url_for("notes.listed", job_id=hit.job_id, key=key),
            play=play_href(hit),
        ),
    )
