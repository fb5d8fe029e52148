"""Rows of a job with sensible values; a test overrides what it is about."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import date, datetime, timezone
from decimal import Decimal
from functools import lru_cache
from typing import Any

from pipeline.brief import assemble as real
from pipeline.brief.document import Brief, HoldingName
from pipeline.brief.past import PastBrief, PastFinding
from pipeline.records import (
    Claim,
    Decision,
    Dossier,
    EngineInfo,
    EpochRecord,
    Evidence,
    EvidenceKind,
    FedUnit,
    Finding,
    FindingNote,
    FrameRecord,
    Holding,
    Interval,
    JobState,
    Likeness,
    MediaEnd,
    MediaStream,
    NoteAction,
    Options,
    Origin,
    Probe,
    RecordingRecord,
    Request,
    SessionEnd,
    TextMark,
)


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def holding(id: str = "h1", **overrides: Any) -> Holding:
    made = Holding(
        id=id,
        name=f"Company {id}",
        ticker=id.upper(),
        exchange="NASDAQ",
        currency="USD",
        asset_type="equity",
        weight_pct=Decimal("50"),
    )
    return replace(made, **overrides)


def request(**overrides: Any) -> Request:
    made = Request(
        objective="What changes for our holdings?",
        title="Investor day",
        event_date=date(2026, 3, 4),
        engine="minicpmo",
        options=Options(),
    )
    return replace(made, **overrides)


def probe(**overrides: Any) -> Probe:
    made = Probe(
        format="mov,mp4,m4a,3gp,3g2,mj2",
        size_bytes=1_000_000,
        origin_ms=0,
        declared_duration_ms=10_000,
        packet_end_ms=10_000,
        streams=(
            MediaStream(
                index=0,
                kind="video",
                codec="h264",
                is_chosen=True,
                reason="the only picture",
                details={"width": 1280, "height": 720},
            ),
            MediaStream(
                index=1, kind="audio", codec="aac", is_chosen=True, reason="the only sound"
            ),
        ),
    )
    return replace(made, **overrides)


def unit(second: int | None = 0, **overrides: Any) -> FedUnit:
    start_ms = 0 if second is None else second * 1000
    made = FedUnit(
        epoch=1,
        sequence=second or 0,
        second=second,
        drain=None if second is not None else 1,
        start_ms=start_ms,
        end_ms=start_ms + (0 if second is None else 1000),
        real_samples=0 if second is None else 16_000,
        filled_samples=0,
        synthetic_samples=16_000 if second is None else 0,
        frame_ms=None if second is None else start_ms,
        held_frame_ms=None,
        rms_dbfs=None if second is None else -20.0,
        decision=Decision.LISTEN,
        is_end_of_turn=False,
    )
    return replace(made, **overrides)


def units(seconds: Iterable[int], *, epoch: int = 1, **overrides: Any) -> tuple[FedUnit, ...]:
    return tuple(
        unit(second, epoch=epoch, sequence=sequence, **overrides)
        for sequence, second in enumerate(seconds)
    )


def media_end(**overrides: Any) -> MediaEnd:
    made = MediaEnd(
        source_end_ms=10_000,
        units=10,
        real_samples=160_000,
        filled_samples=0,
        synthetic_samples=0,
        own_frames=10,
        held_frames=0,
        clipped_samples=0,
        replaced_samples=0,
        remarks=(),
    )
    return replace(made, **overrides)


def epoch(number: int = 1, **overrides: Any) -> EpochRecord:
    made = EpochRecord(
        number=number,
        start_s=0,
        engine=EngineInfo(
            name="minicpmo",
            revision="503e754",
            device="cuda:0",
            settings={"temperature": 0.7, "window": 8000, "sampling": True},
        ),
        prompt_sha256=sha256("prompt"),
        started_at=datetime(2026, 3, 5, 1, 0, tzinfo=timezone.utc),
        ended_at=datetime(2026, 3, 5, 1, 0, 12, 500_000, tzinfo=timezone.utc),
        end_reason="completed",
        end_detail=None,
        gaps=(),
        media_end=media_end(),
        session_end=SessionEnd(is_audio_consumed=True, is_utterance_open=False),
    )
    return replace(made, **overrides)


def origin(start_ms: int = 8_000, end_ms: int = 9_000, **overrides: Any) -> Origin:
    made = Origin(
        generated_in=Interval(start_ms=start_ms, end_ms=end_ms),
        available_from_ms=0,
        first_sequence=start_ms // 1000,
        last_sequence=max(end_ms - 1, 0) // 1000,
        frames=(),
    )
    return replace(made, **overrides)


def finding(*holding_ids: str, **overrides: Any) -> Finding:
    made = Finding(
        epoch=1,
        turn=0,
        block=0,
        holding_ids=holding_ids or ("h1",),
        unmatched=(),
        ambiguous=(),
        evidence="A slide shows orders up 12%.",
        is_audio_evidence=False,
        implication="Revenue may rise next quarter.",
        uncertainty="The slide was visible for one second.",
        verification="Compare with the quarterly report.",
        is_closed=True,
        text="Holdings: …",
        origin=origin(),
    )
    return replace(made, **overrides)


def evidence(text: str = "A chart of shipments.", **overrides: Any) -> Evidence:
    made = Evidence(
        epoch=1, turn=1, block=0, kind=EvidenceKind.TURN, text=text, origin=origin(2_000, 3_000)
    )
    return replace(made, **overrides)


def frame(name: str = "frame", **overrides: Any) -> FrameRecord:
    made = FrameRecord(sha256=sha256(name), source_ms=8_000, width_px=448, height_px=252)
    return replace(made, **overrides)


def dossier(**overrides: Any) -> Dossier:
    """Ten seconds, analysed to the end."""
    made = Dossier(
        job_id="0190b6f2-0000-7000-8000-000000000001",
        state=JobState.SUCCEEDED,
        request=request(),
        holdings=(holding("h1"), holding("h2")),
        portfolio_sha256=sha256("portfolio"),
        recording=RecordingRecord(
            filename="investor-day.mp4",
            sha256=sha256("recording"),
            size_bytes=1_000_000,
            probe=probe(),
        ),
        created_at=datetime(2026, 3, 5, 0, 59, tzinfo=timezone.utc),
        ended_at=datetime(2026, 3, 5, 1, 0, 13, tzinfo=timezone.utc),
        epochs=(epoch(),),
        units=units(range(10)),
        findings=(),
        evidence=(),
    )
    return replace(made, **overrides)


def note(action: NoteAction = NoteAction.NOTE, **overrides: Any) -> FindingNote:
    made = FindingNote(
        epoch=1,
        turn=0,
        block=0,
        number=1,
        action=action,
        text="Asked for the table.",
        author="Ada",
        at=datetime(2026, 3, 6, 7, 30, tzinfo=timezone.utc),
    )
    return replace(made, **overrides)


def full(text: str = "as ever") -> Dossier:
    """A job with something in every part of its brief but the changes; all in other words."""
    marks = (TextMark(code="numbers", count=2), TextMark(code="trade_order", count=1))
    return dossier(
        findings=(
            finding(evidence=f"Orders rose by 12%, {text}.", origin=origin(frames=(frame(),))),
            finding(turn=2, evidence=f"Orders rose by 12%, {text}.", origin=origin(9_000, 10_000)),
            finding("h2", turn=3, evidence=f"Sell now, {text}.", marks=marks, is_closed=False),
        ),
        evidence=(evidence(f"A chart, {text}."), evidence("", turn=4, marks=marks[:1])),
        notes=(note(), note(NoteAction.DONE, number=2, text="Found it.")),
        units=units(range(10), inference_ms=12.5),
    )


def past(*findings: PastFinding, **overrides: Any) -> PastBrief:
    made = PastBrief(
        job_id="0190b6f2-0000-7000-8000-000000000001",
        revision=1,
        title="Investor day",
        sha256=sha256("past"),
        findings=findings,
    )
    return replace(made, **overrides)


def past_finding(*ids: str, **overrides: Any) -> PastFinding:
    made = PastFinding(
        ref="F1",
        holdings=tuple(HoldingName(id=id, name=f"Company {id}") for id in ids or ("h1",)),
        observed="A slide shows orders up 12%.",
        implication="Revenue may rise next quarter.",
    )
    return replace(made, **overrides)


def likeness(before: Claim, now: Claim) -> Likeness:
    """By hand: the same words are the same, other digits in them are a change."""
    if set(before.holding_ids) != set(now.holding_ids):
        return Likeness.OTHER
    if before == replace(now, holding_ids=before.holding_ids):
        return Likeness.SAME
    return Likeness.CHANGED if _worded(before) == _worded(now) else Likeness.OTHER


@lru_cache
def _worded(claim: Claim) -> str:
    return re.sub(r"\d", "", claim.evidence + claim.implication)


def assemble(dossier: Dossier, *, release: str = "1", **given: Any) -> Brief:
    return real.assemble(dossier, release=release, **{"likeness": likeness, **given})
