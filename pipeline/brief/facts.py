"""Rows of names and values that the readable formats share: stored values and measured numbers."""

from __future__ import annotations

from pipeline.brief import sentences
from pipeline.brief.document import Brief, EpochEntry, HoldingRef, RemarkLine, Setting
from pipeline.brief.figures import clock, count, seconds, utc_text

Facts = list[tuple[str, str]]

RECORDING_HASH = "Recording SHA-256"
PORTFOLIO_HASH = "Portfolio SHA-256"
HASHES = frozenset({RECORDING_HASH, PORTFOLIO_HASH})
"""Facts whose value is a digest."""

_GPU_DEVICES = ("cuda", "nvidia")


def symbol(holding: HoldingRef) -> str:
    """`NASDAQ:TSLA`, the ticker alone, or nothing."""
    return ":".join(part for part in (holding.exchange, holding.ticker) if part and holding.ticker)


def setting_value(setting: Setting) -> str:
    if setting.value is None:
        return "none"
    return str(setting.value).lower() if isinstance(setting.value, bool) else str(setting.value)


def remark_facts(remark: RemarkLine) -> str:
    """How often, where, and in which epochs."""
    where = "–".join(at.text for at in (remark.start, remark.end) if at)
    epochs = "epoch " + ", ".join(str(number) for number in remark.epochs)
    times = count(remark.count, "time", "times")
    return ", ".join(part for part in (times, where, epochs) if part)


def header_facts(brief: Brief) -> Facts:
    header, provenance = brief.header, brief.provenance
    return [
        ("Event date", header.event_date or "not given"),
        ("Recording", f"{header.filename}, {header.recording_size_bytes:,} bytes"),
        ("Duration", sentences.duration(header.duration)),
        (RECORDING_HASH, header.recording_sha256),
        ("Portfolio", count(header.holding_count, "holding", "holdings")),
        (PORTFOLIO_HASH, header.portfolio_sha256),
        ("Engine", ", ".join(header.engines)),
        ("Epochs", f"{header.epoch_count:,}"),
        ("Submitted", utc_text(provenance.created_at)),
        ("Ended", utc_text(provenance.ended_at) if provenance.ended_at else "not recorded"),
    ]


def provenance_facts(brief: Brief) -> Facts:
    provenance, header = brief.provenance, brief.header
    container = provenance.container
    facts = [
        ("Job", provenance.job_id),
        ("Job state", brief.status.job_state),
        ("Created", provenance.created_at),
        ("Ended", provenance.ended_at or "not recorded"),
        ("Release", provenance.release),
        ("Form of the document", brief.schema),
        (RECORDING_HASH, header.recording_sha256),
        (PORTFOLIO_HASH, header.portfolio_sha256),
    ]
    if provenance.epochs:
        are_gpu = all(_is_gpu(epoch) for epoch in provenance.epochs)
        facts.append((_engine_time(is_gpu=are_gpu), _seconds(provenance.inference_ms)))
    if container:
        facts += [
            ("Container", container.format),
            ("Source zero on the container's clock", f"{seconds(container.origin_ms)} s"),
            ("Length by its header", _time(container.declared_duration_ms)),
            ("Length by its packets", _time(container.packet_end_ms)),
        ]
    if provenance.findings_superseded or provenance.evidence_superseded:
        left_out = sentences.superseded(
            provenance.findings_superseded,
            provenance.evidence_superseded,
            provenance.notes_superseded,
        )
        facts.append(("Left out", left_out))
    return facts


def epoch_facts(epoch: EpochEntry) -> Facts:
    facts = [
        ("Started at", epoch.start.text),
        ("Engine", f"{epoch.engine} {epoch.revision}, {epoch.device}"),
        ("Prompt SHA-256", epoch.prompt_sha256),
        ("From", epoch.started_at),
        ("To", epoch.ended_at or "not ended"),
        ("Wall time", _seconds(epoch.wall_ms)),
        (_engine_time(is_gpu=_is_gpu(epoch)), _seconds(epoch.inference_ms)),
        ("Ended with", epoch.end_reason or "nothing recorded"),
        ("Detail as recorded", epoch.end_detail or ""),
        (
            "Completed",
            f"{count(epoch.units, 'second', 'seconds')} ({epoch.units_kept:,} not analysed again "
            f"later) and {count(epoch.drain_units, 'drain unit', 'drain units')}",
        ),
        ("Decisions", f"listened {epoch.listened:,}, spoke {epoch.spoke:,}"),
        ("All samples taken in", _yes_no(epoch.is_audio_consumed)),
        ("Still speaking at the end", _yes_no(epoch.is_utterance_open)),
    ]
    if epoch.media:
        totals = epoch.media
        facts += [
            (
                "Samples",
                f"{totals.real_samples:,} real, {totals.filled_samples:,} filled, "
                f"{totals.synthetic_samples:,} synthetic; {totals.clipped_samples:,} clipped, "
                f"{totals.replaced_samples:,} replaced",
            ),
            ("Pictures", f"{totals.own_frames:,} own, {totals.held_frames:,} held"),
        ]
    return [(name, value) for name, value in facts if value]


def _is_gpu(epoch: EpochEntry) -> bool:
    return epoch.device.casefold().startswith(_GPU_DEVICES)


def _engine_time(*, is_gpu: bool) -> str:
    return "GPU seconds" if is_gpu else "Engine seconds"


def _seconds(ms: int | None) -> str:
    return "not recorded" if ms is None else f"{seconds(ms)} s"


def _time(ms: int | None) -> str:
    return "not stated" if ms is None else clock(ms)


def _yes_no(value: bool | None) -> str:
    if value is None:
        return "not recorded"
    return "yes" if value else "no"
