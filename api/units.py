"""The completed units of a job's epochs."""

from __future__ import annotations

from datetime import datetime

from flask import Response
from flask_openapi3.blueprint import APIBlueprint
from flask_openapi3.models.tag import Tag
from pydantic import Field

from api import access
from api.answers import answer
from api.documented import Answer, Strict, problems
from api.jobs import JobPath
from api.limits import ROWS_MAX
from api.service import service
from pipeline.ledger import views
from pipeline.ledger.views import UnitView
from pipeline.records import Decision, JobState

NUMBER_MAX = 2**31 - 1

blueprint = APIBlueprint(
    "units",
    __name__,
    url_prefix="/v1/jobs",
    abp_tags=[Tag(name="evidence", description="What was observed, and where.")],
)


class UnitsQuery(Strict):
    epoch: int | None = Field(
        None, ge=1, le=NUMBER_MAX, description="The newest one where none is named."
    )
    after: int | None = Field(None, ge=0, le=NUMBER_MAX, description="`next` of the page before.")
    limit: int = Field(200, ge=1, le=ROWS_MAX)


class EngineClocksAnswer(Answer):
    """Where the time of one unit went inside the engine, by the monotonic clock."""

    prepare_ms: float = Field(description="Decoding samples and picture on the CPU.")
    prefill_ms: float
    generate_ms: float
    upstream_ms: dict[str, float] = Field(
        description="The model code's own figures, by its wall clock; for comparison only."
    )


class UnitAnswer(Answer):
    """One completed unit and what the engine answered."""

    epoch: int
    sequence: int
    second: int | None
    drain: int | None
    start_ms: int
    end_ms: int
    real_samples: int
    filled_samples: int
    synthetic_samples: int
    frame_ms: int | None
    held_frame_ms: int | None
    rms_dbfs: float | None
    decision: Decision
    is_end_of_turn: bool
    text: str
    tokens: int
    generation_id: str | None
    payload_sha256: str
    decode_ms: float
    queue_wait_ms: float
    inference_ms: float
    clocks: EngineClocksAnswer | None = Field(
        description="Null where the engine does not tell them apart."
    )
    ledger_ms: float | None = Field(
        description="Time of its write; null until the next unit, or the epoch's end, is stored."
    )
    total_ms: float | None = Field(
        description="From the hand-over to the engine to the end of its write; null as above."
    )
    committed_at: datetime


class UnitsAnswer(Answer):
    """A page of units; empty until the first is completed."""

    state: JobState
    epoch: int | None
    units: list[UnitAnswer]
    next: int | None = Field(description="Give it as `after`; null where nothing follows yet.")


@blueprint.get("/<job_id>/units", responses={200: UnitsAnswer, **problems(404, 422)})
def listed(path: JobPath, query: UnitsQuery) -> Response:
    """List units"""
    view = views.get(service().database, path.job_id, owner=access.sight())
    epoch = query.epoch or view.epoch
    found: tuple[UnitView, ...] = ()
    if epoch is not None:
        found = views.units(
            service().database,
            view.id,
            epoch=epoch,
            after_sequence=query.after,
            limit=query.limit + 1,
        )
    page = found[: query.limit]
    return answer(
        UnitsAnswer(
            state=view.state,
            epoch=epoch,
            units=[_unit(unit) for unit in page],
            next=page[-1].unit.sequence if len(found) > query.limit else None,
        )
    )


def _unit(view: UnitView) -> UnitAnswer:
    unit = view.unit
    return UnitAnswer(
        epoch=unit.epoch,
        sequence=unit.sequence,
        second=unit.second,
        drain=unit.drain,
        start_ms=unit.start_ms,
        end_ms=unit.end_ms,
        real_samples=unit.real_samples,
        filled_samples=unit.filled_samples,
        synthetic_samples=unit.synthetic_samples,
        frame_ms=unit.frame_ms,
        held_frame_ms=unit.held_frame_ms,
        rms_dbfs=unit.rms_dbfs,
        decision=unit.decision,
        is_end_of_turn=unit.is_end_of_turn,
        text=view.text,
        tokens=view.tokens,
        generation_id=view.generation_id,
        payload_sha256=view.payload_sha256,
        decode_ms=view.decode_ms,
        queue_wait_ms=view.queue_wait_ms,
        inference_ms=view.inference_ms,
        clocks=None
        if view.clocks is None
        else EngineClocksAnswer(
            prepare_ms=view.clocks.prepare_ms,
            prefill_ms=view.clocks.prefill_ms,
            generate_ms=view.clocks.generate_ms,
            upstream_ms=dict(view.clocks.upstream_ms),
        ),
        ledger_ms=view.ledger_ms,
        total_ms=view.total_ms,
        committed_at=view.committed_at,
    )
