"""What the brief can be traced back to: hashes, settings, versions, times and counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from decimal import Decimal
from fractions import Fraction

from pipeline.brief.document import (
    Container,
    EpochEntry,
    MediaTotals,
    Moment,
    Provenance,
    Setting,
    StreamEntry,
)
from pipeline.brief.figures import utc, wall_ms
from pipeline.brief.seams import Ownership
from pipeline.brief.selection import Selection
from pipeline.decimals import decimal_text
from pipeline.records import Decision, Dossier, EpochRecord, FedUnit, MediaEnd, Probe


def trace(
    dossier: Dossier, ownership: Ownership, selection: Selection, *, release: str
) -> Provenance:
    units: dict[int, list[FedUnit]] = {epoch.number: [] for epoch in dossier.epochs}
    for unit in dossier.units:
        units[unit.epoch].append(unit)
    options = dossier.request.options
    epochs = tuple(
        _epoch(epoch, units[epoch.number], ownership)
        for epoch in sorted(dossier.epochs, key=lambda epoch: epoch.number)
    )
    return Provenance(
        job_id=dossier.job_id,
        release=release,
        created_at=utc(dossier.created_at),
        ended_at=utc(dossier.ended_at) if dossier.ended_at else None,
        options=tuple(
            Setting(name=option.name, value=getattr(options, option.name))
            for option in fields(options)
        ),
        container=_container(dossier.recording.probe),
        epochs=epochs,
        inference_ms=_total(epoch.inference_ms for epoch in epochs),
        findings_superseded=selection.findings_superseded,
        evidence_superseded=selection.evidence_superseded,
        notes_superseded=selection.notes_superseded,
    )


def _epoch(epoch: EpochRecord, units: list[FedUnit], ownership: Ownership) -> EpochEntry:
    end = epoch.session_end
    spoke = sum(unit.decision is Decision.SPEAK for unit in units)
    drain_units = sum(unit.second is None for unit in units)
    return EpochEntry(
        number=epoch.number,
        start=Moment(ms=epoch.start_s * 1000),
        engine=epoch.engine.name,
        revision=epoch.engine.revision,
        device=epoch.engine.device,
        settings=_settings(epoch.engine.settings),
        prompt_sha256=epoch.prompt_sha256,
        started_at=utc(epoch.started_at),
        ended_at=utc(epoch.ended_at) if epoch.ended_at else None,
        wall_ms=wall_ms(epoch.started_at, epoch.ended_at) if epoch.ended_at else None,
        end_reason=epoch.end_reason,
        end_detail=epoch.end_detail,
        units=len(units) - drain_units,
        units_kept=ownership.kept_in(epoch.number),
        drain_units=drain_units,
        listened=len(units) - spoke,
        spoke=spoke,
        inference_ms=_total(unit.inference_ms for unit in units),
        is_audio_consumed=end.is_audio_consumed if end else None,
        is_utterance_open=end.is_utterance_open if end else None,
        media=_totals(epoch.media_end) if epoch.media_end else None,
    )


def _total(times_ms: Iterable[float | None]) -> int | None:
    """To the millisecond; none where one of them is not known."""
    total = Fraction(0)
    for ms in times_ms:
        if ms is None:
            return None
        total += Fraction(ms)
    return round(total)


def _totals(end: MediaEnd) -> MediaTotals:
    return MediaTotals(
        units=end.units,
        real_samples=end.real_samples,
        filled_samples=end.filled_samples,
        synthetic_samples=end.synthetic_samples,
        own_frames=end.own_frames,
        held_frames=end.held_frames,
        clipped_samples=end.clipped_samples,
        replaced_samples=end.replaced_samples,
    )


def _container(probe: Probe | None) -> Container | None:
    if probe is None:
        return None
    return Container(
        format=probe.format,
        origin_ms=probe.origin_ms,
        declared_duration_ms=probe.declared_duration_ms,
        packet_end_ms=probe.packet_end_ms,
        streams=tuple(
            StreamEntry(
                index=stream.index,
                kind=stream.kind,
                codec=stream.codec,
                is_chosen=stream.is_chosen,
                reason=stream.reason,
                details=_settings(stream.details),
            )
            for stream in sorted(probe.streams, key=lambda stream: stream.index)
        ),
    )


def _settings(values: Mapping[str, str | int | float | bool | None]) -> tuple[Setting, ...]:
    """By name: a mapping's own order is no part of what was stored."""
    return tuple(Setting(name=name, value=_exact(value)) for name, value in sorted(values.items()))


def _exact(value: str | int | float | bool | None) -> str | int | bool | None:
    if not isinstance(value, float):
        return value
    exact = Decimal(repr(value))
    return decimal_text(exact) if exact.is_finite() else repr(value)
