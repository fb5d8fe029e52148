"""Replies as an engine gives them, for the tests of this folder."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from pipeline.findings.reader import FindingsReader
from pipeline.records import Decision, Evidence, Finding, Frame, Holding, Reply

HOLDINGS = tuple(
    Holding(
        id=key,
        name=name,
        ticker=ticker,
        exchange=exchange,
        currency="USD",
        asset_type="equity",
        weight_pct=Decimal(25),
    )
    for key, name, ticker, exchange in (
        ("ACM", "Acme Corp", "ACM", "NYSE"),
        ("TSL", "Tesla, Inc.", "TSLA", "NASDAQ"),
        ("ALL", "Allstate Corporation", "ALL", "NYSE"),
        ("CASH", "Cash", None, None),
    )
)

Record = Evidence | Finding


def frame_at(source_ms: int, jpeg: bytes | None = None) -> Frame:
    jpeg = jpeg or f"picture at {source_ms}".encode()
    return Frame(
        source_ms=source_ms,
        width_px=448,
        height_px=252,
        jpeg=jpeg,
        sha256=hashlib.sha256(jpeg).hexdigest(),
    )


@dataclass(kw_only=True)
class Epoch:
    """Feeds a reader one second after another and keeps what a ledger would keep."""

    ring_capacity: int = 128
    still: bytes | None = None
    """What every frame shows; none where each shows its own time."""
    reader: FindingsReader = field(init=False)
    sequence: int = 0
    records: dict[tuple[int, int], Record] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.reader = FindingsReader(epoch=3, holdings=HOLDINGS, ring_capacity=self.ring_capacity)

    def listen(self, count: int = 1, *, frame: bool = True) -> None:
        for _ in range(count):
            self._feed("", Decision.LISTEN, is_end=False, frame=frame)

    def say(
        self,
        text: str,
        *,
        end: bool = False,
        frame: bool = True,
        window: int = 0,
        at_ms: tuple[int, int] | None = None,
    ) -> tuple[Record, ...]:
        return self._feed(text, Decision.SPEAK, is_end=end, frame=frame, window=window, at_ms=at_ms)

    def cut(self) -> tuple[Record, ...]:
        return self._keep(self.reader.cut())

    def _feed(
        self,
        text: str,
        decision: Decision,
        *,
        is_end: bool,
        frame: bool,
        window: int = 0,
        at_ms: tuple[int, int] | None = None,
    ) -> tuple[Record, ...]:
        start_ms, end_ms = at_ms or (self.sequence * 1000, self.sequence * 1000 + 1000)
        reply = Reply(
            sequence=self.sequence,
            drain=1 if at_ms else None,
            decision=decision,
            text=text,
            is_end_of_turn=is_end,
            tokens=len(text.split()),
            generation_id="g",
            window_start_sequence=window,
            cached_tokens=None,
            payload_sha256="",
            queue_wait_ms=0.0,
            inference_ms=0.0,
        )
        self.sequence += 1
        picture = frame_at(start_ms, self.still) if frame else None
        return self._keep(
            self.reader.observe(reply, start_ms=start_ms, end_ms=end_ms, frame=picture)
        )

    def _keep(self, records: tuple[Record, ...]) -> tuple[Record, ...]:
        keys = [(record.turn, record.block) for record in records]
        assert len(keys) == len(set(keys))
        for record in records:
            before = self.records.get((record.turn, record.block))
            assert before is None or isinstance(before, Finding)
            assert record.epoch == 3
            self.records[record.turn, record.block] = record
        return records


def told(records: Sequence[Record]) -> list[tuple[object, ...]]:
    """What kind each record is, what it says and how it is marked, without where from."""
    return [
        ("finding", record.block, record.claim, record.is_closed, record.text, record.marks)
        if isinstance(record, Finding)
        else (record.kind.value, record.block, record.text, record.marks)
        for record in records
    ]


def marks_of(record: Record) -> dict[str, int]:
    return {mark.code: mark.count for mark in record.marks}


def spoken(parts: Sequence[str], *, ends: bool = True) -> dict[tuple[int, int], Record]:
    """The records of one turn that comes in these parts, and ends or is cut."""
    epoch = Epoch()
    for part in parts:
        epoch.say(part)
    if ends:
        epoch.say("", end=True)
    epoch.cut()
    return epoch.records
