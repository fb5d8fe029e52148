"""A job as it is answered: where it stands, how far it is, and where the rest lies."""

from __future__ import annotations

from dataclasses import asdict
from datetime import date, datetime

from flask import url_for
from pydantic import Field

from api.documented import Answer
from pipeline.ledger.views import JobView
from pipeline.records import JobState, Phase

UNITS_FOR_SPEED_MS = 2_000
"""Before this much is done, a speed would be the cost of starting."""


class Progress(Answer):
    """How far the newest epoch is."""

    done_s: float = Field(description="Source time up to which units are completed.")
    total_s: float | None = Field(description="Where the source ends, as far as is known.")
    phase: Phase | None
    progress_at: datetime | None = Field(
        description="When the newest epoch last completed a unit or entered a phase."
    )
    times_realtime: float | None = Field(
        description="Source seconds a second, measured over this epoch."
    )
    eta_s: float | None = Field(description="Seconds until its end at that speed.")


class Fetch(Answer):
    """How far the recording of a job that names a link is; of the link only its host is told."""

    host: str
    attempts: int = Field(description="Attempts since it last got on.")
    received_bytes: int
    total_bytes: int | None = Field(description="Null where the server has not said.")
    ended_at: datetime | None = Field(
        description="When it ended, whether the recording is here or not."
    )


class JobLinks(Answer):
    """Where the rest of the job lies."""

    self: str
    brief: str
    findings: str
    evidence: str
    units: str
    epochs: str
    recording: str | None
    media: str | None


class JobAnswer(Answer):
    """A job."""

    id: str = Field(examples=["0f9f7b0e-52d5-4c8e-9e55-1ddc6f1a8f6e"])
    state: JobState
    recording_id: str | None
    fetch: Fetch | None = Field(description="Null where the job names no link.")
    filename: str
    title: str | None
    objective: str
    event_date: date | None
    engine: str
    holding_count: int = Field(description="Holdings in the portfolio.")
    created_at: datetime
    times: dict[str, datetime] = Field(
        description="When the job last entered each state that it was in."
    )
    end_reason: str | None = Field(description="Why it ended; an open set.", examples=["completed"])
    end_detail: str | None
    cancel_requested_at: datetime | None
    priority: int = Field(description="Smaller is claimed first.")
    not_before: datetime | None = Field(description="No worker begins with it earlier.")
    ready_by: datetime | None = Field(description="When its brief is wanted.")
    keep_until: datetime | None = Field(
        description="When it may be deleted; null for as long as the installation keeps jobs."
    )
    held_at: datetime | None = Field(description="Under legal hold since then.")
    epoch: int | None = Field(description="The newest epoch's number.")
    progress: Progress
    links: JobLinks


class JobsAnswer(Answer):
    """A page of jobs, newest first."""

    jobs: list[JobAnswer]
    next: str | None = Field(description="Give it as `after` for the next page; null at the end.")


def job_answer(view: JobView) -> JobAnswer:
    return JobAnswer(
        id=view.id,
        state=view.state,
        recording_id=view.recording_id,
        fetch=_fetch(view),
        filename=view.filename,
        title=view.title,
        objective=view.objective,
        event_date=view.event_date,
        engine=view.engine,
        holding_count=view.holding_count,
        created_at=view.created_at,
        times={state.value: at for state, at in view.times.items()},
        end_reason=view.end_reason,
        end_detail=view.end_detail,
        cancel_requested_at=view.cancel_requested_at,
        priority=view.priority,
        not_before=view.not_before,
        ready_by=view.ready_by,
        keep_until=view.keep_until,
        held_at=view.held_at,
        epoch=view.epoch,
        progress=progress(view),
        links=_links(view),
    )


def _fetch(view: JobView) -> Fetch | None:
    return None if view.fetch is None else Fetch.model_validate(asdict(view.fetch))


def progress(view: JobView) -> Progress:
    done_ms = view.progress_ms or 0
    total_ms = view.source_end_ms
    speed = _times_realtime(view, done_ms)
    rest_s = None if total_ms is None else max(total_ms - done_ms, 0) / 1000
    is_running = view.state is JobState.RUNNING
    return Progress(
        done_s=done_ms / 1000,
        total_s=None if total_ms is None else total_ms / 1000,
        phase=view.phase if is_running or view.state is JobState.FINALIZING else None,
        progress_at=view.progress_at,
        times_realtime=None if speed is None else round(speed, 2),
        eta_s=round(rest_s / speed, 1) if speed and rest_s is not None and is_running else None,
    )


def _times_realtime(view: JobView, done_ms: int) -> float | None:
    """By the epoch's own stamps, so that an answer with the same ETag is the same answer.

    Up to the stamp that came with the newest unit: a sign of life is no progress.
    """
    if view.epoch_started_at is None or view.progress_at is None:
        return None
    fed_ms = done_ms - (view.epoch_start_s or 0) * 1000
    elapsed_s = (view.progress_at - view.epoch_started_at).total_seconds()
    if fed_ms < UNITS_FOR_SPEED_MS or elapsed_s <= 0:
        return None
    return fed_ms / 1000 / elapsed_s


def _links(view: JobView) -> JobLinks:
    recording_id = view.recording_id
    return JobLinks(
        self=url_for("jobs.show", job_id=view.id),
        brief=url_for("briefs.fetch", job_id=view.id),
        findings=url_for("texts.findings", job_id=view.id),
        evidence=url_for("texts.evidence", job_id=view.id),
        units=url_for("units.listed", job_id=view.id),
        epochs=url_for("epochs.listed", job_id=view.id),
        recording=recording_id and url_for("recordings.show", recording_id=recording_id),
        media=recording_id and url_for("media.fetch", recording_id=recording_id),
    )
