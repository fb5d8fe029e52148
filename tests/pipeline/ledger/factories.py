"""Records with plausible values, each of which a test may set."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

from sqlalchemy import text

from pipeline.ledger import jobs, units
from pipeline.ledger.database import Database
from pipeline.ledger.epochs import EpochKey
from pipeline.records import (
    Decision,
    EngineInfo,
    Evidence,
    EvidenceKind,
    Finding,
    Frame,
    FrameRecord,
    Holding,
    Interval,
    MediaStream,
    Options,
    Origin,
    Probe,
    RecordingRecord,
    Reply,
    Request,
    Unit,
    UnitClocks,
)

MOMENT = datetime(2026, 9, 10, 2, 3, 18, 123456, tzinfo=timezone.utc)


def digest(seed: object) -> str:
    return hashlib.sha256(repr(seed).encode()).hexdigest()


def make_holding(**given: Any) -> Holding:
    return Holding(
        **{
            "id": "h1",
            "name": "Acme Corporation",
            "ticker": "ACME",
            "exchange": "XNYS",
            "currency": "USD",
            "asset_type": "equity",
            "weight_pct": Decimal("60.50"),
            "aliases": ("Acme", "the Road Runner's friends"),
            **given,
        }
    )


HOLDINGS = (
    make_holding(),
    make_holding(
        id="cash",
        name="Cash",
        ticker=None,
        exchange=None,
        asset_type="cash",
        weight_pct=Decimal("49.5"),
        aliases=(),
    ),
    make_holding(id="h2", name="Short", ticker="SHRT", weight_pct=Decimal("-10"), aliases=()),
)


def make_request(**given: Any) -> Request:
    return Request(
        **{
            "objective": "What was said about margins?",
            "title": "Q3 call",
            "event_date": date(2026, 9, 9),
            "engine": "rehearsal",
            "options": Options(seed=7, start_s=0),
            **given,
        }
    )


def make_recording(**given: Any) -> RecordingRecord:
    return RecordingRecord(
        **{
            "filename": "call.mp4",
            "sha256": digest("recording"),
            "size_bytes": 7_000_000_000,
            "probe": None,
            **given,
        }
    )


def make_probe() -> Probe:
    stream = MediaStream(
        index=0,
        kind="audio",
        codec="aac",
        is_chosen=True,
        reason="the only one",
        details={"rate_hz": 48_000, "layout": "stereo", "language": None},
    )
    return Probe(
        format="mov,mp4",
        size_bytes=7_000_000_000,
        origin_ms=-21,
        declared_duration_ms=None,
        packet_end_ms=3_600_000,
        streams=(stream,),
    )


def make_engine(**given: Any) -> EngineInfo:
    return EngineInfo(
        **{
            "name": "rehearsal",
            "revision": "1",
            "device": "cpu",
            "settings": {"threshold": 0.5, "big": 1e300, "count": 3, "is_fast": True, "no": None},
            **given,
        }
    )


def start(database: Database, **given: Any) -> EpochKey:
    return jobs.start_local(
        database,
        **{
            "recording": make_recording(),
            "request": make_request(),
            "holdings": HOLDINGS,
            "portfolio_sha256": digest("portfolio"),
            "engine": make_engine(),
            "prompt_sha256": digest("prompt"),
            "slot": "host:0",
            "host": "host",
            "pid": 4711,
            **given,
        },
    )


def make_frame(source_ms: int = 0, **given: Any) -> Frame:
    jpeg = given.pop("jpeg", b"\xff\xd8 a picture of %d" % source_ms)
    return Frame(
        **{
            "source_ms": source_ms,
            "width_px": 448,
            "height_px": 252,
            "jpeg": jpeg,
            "sha256": hashlib.sha256(jpeg).hexdigest(),
            **given,
        }
    )


def cited(frame: Frame) -> FrameRecord:
    return FrameRecord(
        sha256=frame.sha256,
        source_ms=frame.source_ms,
        width_px=frame.width_px,
        height_px=frame.height_px,
    )


def make_unit(second: int = 0, **given: Any) -> Unit:
    return Unit(
        **{
            "second": second,
            "start_ms": second * 1000,
            "end_ms": second * 1000 + 1000,
            "pcm": bytes(64_000),
            "real_samples": 15_000,
            "filled_samples": 1_000,
            "synthetic_samples": 0,
            "frame": None,
            "is_frame_held": False,
            "decode_ms": 1.5,
            **given,
        }
    )


def make_reply(sequence: int = 0, **given: Any) -> Reply:
    return Reply(
        **{
            "sequence": sequence,
            "drain": None,
            "decision": Decision.LISTEN,
            "text": "",
            "is_end_of_turn": False,
            "tokens": 0,
            "generation_id": None,
            "window_start_sequence": 0,
            "cached_tokens": 812,
            "payload_sha256": digest(("payload", sequence)),
            "queue_wait_ms": 0.25,
            "inference_ms": 12.5,
            **given,
        }
    )


CLOCKS = UnitClocks(
    decode_ms=1.5,
    queue_wait_ms=0.25,
    inference_started_at=MOMENT,
    inference_ended_at=MOMENT,
    emitted_at=MOMENT,
)


def record_unit(database: Database, key: EpochKey, sequence: int = 0, **given: Any) -> bool:
    return units.record(
        database,
        key,
        **{
            "unit": make_unit(sequence),
            "source_end_ms": sequence * 1000 + 1000,
            "reply": make_reply(sequence),
            "clocks": CLOCKS,
            "texts": (),
            "frames": (),
            "rms_dbfs": -23.5,
            **given,
        },
    )


def make_origin(**given: Any) -> Origin:
    return Origin(
        **{
            "generated_in": Interval(start_ms=0, end_ms=1000),
            "available_from_ms": 0,
            "first_sequence": 0,
            "last_sequence": 0,
            "frames": (),
            **given,
        }
    )


def make_evidence(**given: Any) -> Evidence:
    return Evidence(
        **{
            "epoch": 1,
            "turn": 0,
            "block": 0,
            "kind": EvidenceKind.TURN,
            "text": "A tone begins.",
            "origin": make_origin(),
            **given,
        }
    )


def make_finding(**given: Any) -> Finding:
    return Finding(
        **{
            "epoch": 1,
            "turn": 0,
            "block": 0,
            "holding_ids": ("h2", "h1"),
            "unmatched": ("Globex",),
            "ambiguous": (),
            "evidence": "A chart falls.",
            "is_audio_evidence": False,
            "implication": "Margins narrow.",
            "uncertainty": "One slide only.",
            "verification": "Read the filing.",
            "is_closed": True,
            "text": "Holdings: Short, Acme, Globex",
            "origin": make_origin(),
            **given,
        }
    )


def rows(database: Database, statement: str, **values: object) -> Sequence[Any]:
    """What PostgreSQL itself says, past the code under test."""
    with database.transaction() as session:
        return session.execute(text(statement), values).all()
