"""The status says what is missing, and says complete only where nothing speaks against it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipeline.brief.document import Status, StatusKind
from pipeline.brief.render_html import to_html
from pipeline.brief.render_json import to_json
from pipeline.brief.render_markdown import to_markdown
from pipeline.records import Dossier, Gap, JobState, Options, SessionEnd
from tests.pipeline.brief import factories as make
from tests.pipeline.brief.factories import assemble


def status(dossier: Dossier) -> Status:
    """Its status, once it is known that every format can be made of it."""
    made = assemble(dossier, release="1")
    to_json(made)
    to_markdown(made, recording_href="r.mp4", frame_href=None)
    to_html(made, recording_href=None, frame_bytes=lambda _: b"")
    return made.status


def missing(found: Status) -> list[tuple[int, int, str]]:
    return [(item.span.start_ms, item.span.end_ms, item.code) for item in found.missing]


def test_a_recording_analysed_to_its_end_is_complete() -> None:
    found = status(make.dossier())
    assert (found.kind, found.headline, found.missing) == (StatusKind.COMPLETE, "Complete", ())


def test_a_late_start_on_request_is_complete_from_there() -> None:
    dossier = make.dossier(
        units=make.units(range(4, 10)),
        epochs=(make.epoch(start_s=4),),
        request=make.request(options=Options(start_s=4)),
    )
    found = status(dossier)
    assert found.kind is StatusKind.COMPLETE
    assert found.headline == "Complete from 0:04 on, as requested"
    assert missing(found) == [(0, 4_000, "skipped")]


@pytest.mark.parametrize(
    "change",
    [
        {"units": make.units(range(9))},
        {"epochs": (make.epoch(end_reason="worker_lost"),)},
        {"epochs": (make.epoch(end_reason=None),)},
        {"epochs": (make.epoch(media_end=None),)},
        {"epochs": (make.epoch(session_end=None),)},
        {
            "epochs": (
                make.epoch(
                    session_end=SessionEnd(is_audio_consumed=False, is_utterance_open=False)
                ),
            )
        },
        {"epochs": (), "units": ()},
        {"state": JobState.FAILED},
        {"state": JobState.CANCELED},
    ],
)
def test_anything_that_speaks_against_it_makes_it_partial(change: dict[str, object]) -> None:
    assert status(make.dossier(**change)).kind is StatusKind.PARTIAL


def test_each_missing_range_has_the_reason_of_the_epoch_that_would_have_come_there() -> None:
    """Epoch 1 fed 0–2 and failed, epoch 2 started at 5, fed 5–6 and lost its worker."""
    dossier = make.dossier(
        state=JobState.FAILED,
        epochs=(
            make.epoch(end_reason="unit_timeout", media_end=None, session_end=None),
            make.epoch(2, start_s=5, end_reason="worker_lost", media_end=None, session_end=None),
        ),
        units=(*make.units(range(3)), *make.units(range(5, 7), epoch=2)),
    )
    found = status(dossier)
    assert found.headline == "Partial: 0:05 of about 0:10 analysed (50.0\u00a0%)"
    assert missing(found) == [(3_000, 5_000, "unit_timeout"), (7_000, 10_000, "worker_lost")]
    assert found.end_reason == "worker_lost"
    assert "The worker was lost." in found.sentences


def test_a_reason_this_release_does_not_know_is_shown_as_it_is() -> None:
    dossier = make.dossier(
        state=JobState.FAILED,
        epochs=(make.epoch(end_reason="cosmic_rays", end_detail="Bit 7 flipped."),),
    )
    found = status(dossier)
    assert "Reason as recorded: cosmic_rays." in found.sentences
    assert found.end_detail == "Bit 7 flipped."
    text = to_markdown(assemble(dossier, release="1"), recording_href=None, frame_href=None)
    assert "cosmic\\_rays" in text


@pytest.mark.parametrize(
    "state",
    [
        JobState.WAITING_FOR_RECORDING,
        JobState.QUEUED,
        JobState.RUNNING,
        JobState.CANCELING,
        JobState.FINALIZING,
    ],
)
def test_a_job_that_has_not_ended_says_so(state: JobState) -> None:
    running = make.epoch(ended_at=None, end_reason=None, media_end=None, session_end=None)
    dossier = make.dossier(
        state=state, ended_at=None, epochs=(running,), units=make.units(range(3))
    )
    found = status(dossier)
    assert found.kind is StatusKind.IN_PROGRESS
    assert found.headline.startswith("Not finished: 0:03 of about 0:10")
    assert found.end_reason is None
    assert missing(found) == [(3_000, 10_000, "not_reached")]


@pytest.mark.parametrize("state", list(JobState))
def test_every_state_with_nothing_analysed_still_gives_a_brief(state: JobState) -> None:
    recording = replace(make.dossier().recording, probe=None)
    dossier = make.dossier(
        state=state, epochs=(), units=(), holdings=(), recording=recording, end_reason=None
    )
    assert status(dossier).kind is not StatusKind.COMPLETE


def test_a_job_that_failed_before_its_first_epoch_has_its_own_reason() -> None:
    dossier = make.dossier(
        state=JobState.FAILED, epochs=(), units=(), end_reason="context_too_long"
    )
    found = status(dossier)
    assert found.end_reason == "context_too_long"
    assert "Portfolio and objective were too long for the engine." in found.sentences


def test_gaps_and_an_open_utterance_are_said_of_a_complete_brief() -> None:
    epoch = make.epoch(
        gaps=(Gap(start_ms=2_000, end_ms=40_000),),
        media_end=make.media_end(source_end_ms=42_000),
        session_end=SessionEnd(is_audio_consumed=True, is_utterance_open=True),
    )
    found = status(make.dossier(units=make.units([0, 1, 40, 41]), epochs=(epoch,)))
    assert found.kind is StatusKind.COMPLETE
    assert found.sentences == (
        "The engine was still speaking at the end; its last text is kept as cut evidence.",
        "The source has 1 gap without sound or picture, 38 s in all.",
    )


def test_the_rehearsal_engine_is_announced_above_all_else() -> None:
    real = assemble(make.dossier(), release="1")
    rehearsal = assemble(make.dossier(request=make.request(engine="rehearsal")), release="1")
    assert real.header.banner is None
    assert rehearsal.header.banner is not None
    assert "understands nothing" in rehearsal.header.banner
    html = to_html(rehearsal, recording_href=None, frame_bytes=lambda _: b"")
    assert html.index(rehearsal.header.banner) < html.index("Findings</h2>")
