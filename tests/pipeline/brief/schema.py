"""The brief's JSON form, written down by hand from what readers were promised."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
COUNT: Schema = {"type": "integer", "minimum": 0}
FLAG: Schema = {"type": "boolean"}
HASH: Schema = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
DECIMAL: Schema = {"type": "string", "pattern": r"^-?\d+(\.\d*[1-9])?$"}
TIME: Schema = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$"}
CLOCK: Schema = {"type": "string", "pattern": r"^\d+(:\d\d){1,2}(\.\d{0,2}[1-9])?$"}


def maybe(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def many(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


def record(**properties: Schema) -> Schema:
    """All of these and nothing else."""
    return {
        "type": "object",
        "properties": properties,
        "required": sorted(properties),
        "additionalProperties": False,
    }


MOMENT = record(ms=COUNT, text=CLOCK)
SPAN = record(start_ms=COUNT, end_ms=COUNT, text=TEXT)
SPANS = record(listed=many(SPAN), omitted=COUNT)
SETTING = record(name=TEXT, value={"type": ["string", "integer", "boolean", "null"]})
SOURCE_END = record(basis={"enum": ["decoded", "packets", "unknown"]}, at=maybe(MOMENT))
HOLDING = record(id=TEXT, name=TEXT, ticker=maybe(TEXT), exchange=maybe(TEXT), weight_pct=DECIMAL)
SOURCE = record(
    epoch=COUNT,
    turn=COUNT,
    block=COUNT,
    interval=SPAN,
    generated_in=SPAN,
    available_from=MOMENT,
    play=SPAN,
    fragment={"type": "string", "pattern": r"^t=\d+(\.\d{1,3})?(,\d+(\.\d{1,3})?)?$"},
    frames=many(record(sha256=HASH, at=MOMENT, width_px=COUNT, height_px=COUNT)),
)
KEY: Schema = {"type": "string", "pattern": r"^\d+\.\d+\.\d+$"}
MARK = record(code=TEXT, text=TEXT, names=many(TEXT), count=maybe(COUNT))
DRAWN = {**many(SPAN), "maxItems": 1000}
CHANGE = record(
    kind={"enum": ["new", "gone", "changed"]},
    holding_ids=many(TEXT),
    now_ref=maybe(TEXT),
    before_ref=maybe(TEXT),
    before=maybe(record(observed=TEXT, implication=TEXT)),
)
EXPOSURE_LINE = record(holding=HOLDING, findings=many(TEXT), first=maybe(MOMENT))
COVERAGE_LINE = record(
    code=TEXT, label=TEXT, duration_ms=maybe(COUNT), share_pct=maybe(DECIMAL), spans=SPANS
)
TOTALS = record(
    units=COUNT,
    real_samples=COUNT,
    filled_samples=COUNT,
    synthetic_samples=COUNT,
    own_frames=COUNT,
    held_frames=COUNT,
    clipped_samples=COUNT,
    replaced_samples=COUNT,
)

SCHEMA = record(
    schema={"const": "omnai.brief/2"},
    sha256=HASH,
    header=record(
        name=TEXT,
        title=maybe(TEXT),
        filename=TEXT,
        event_date=maybe({"type": "string", "pattern": r"^\d{4}-\d\d-\d\d$"}),
        objective=TEXT,
        duration=SOURCE_END,
        recording_sha256=HASH,
        recording_size_bytes=COUNT,
        portfolio_sha256=HASH,
        holding_count=COUNT,
        epoch_count=COUNT,
        engines=many(TEXT),
        banner=maybe(TEXT),
    ),
    status=record(
        kind={"enum": ["complete", "partial", "in_progress"]},
        headline=TEXT,
        sentences=many(TEXT),
        job_state=TEXT,
        end_reason=maybe(TEXT),
        end_detail=maybe(TEXT),
        missing=many(record(span=SPAN, code=TEXT, text=TEXT)),
        missing_omitted=COUNT,
    ),
    findings=many(
        record(
            ref=TEXT,
            holdings={**many(HOLDING), "minItems": 1},
            is_audio_evidence=FLAG,
            observed=TEXT,
            implication=TEXT,
            uncertainty=TEXT,
            verification=TEXT,
            text=TEXT,
            key=KEY,
            marks=many(MARK),
            source=SOURCE,
            repeats=many(SOURCE),
            state={"enum": ["open", "accepted", "rejected", "done"]},
            notes=many(
                record(
                    key=KEY,
                    number={"type": "integer", "minimum": 1},
                    action={"enum": ["note", "accept", "reject", "done"]},
                    text=TEXT,
                    author=TEXT,
                    at=TIME,
                )
            ),
        )
    ),
    bottom_line=record(text=TEXT, findings={**many(TEXT), "maxItems": 5}),
    timeline=record(
        end=maybe(MOMENT),
        bands=many(record(code=TEXT, label=TEXT, spans=DRAWN, joined=COUNT)),
        epochs=many(record(number=COUNT, spans=DRAWN, joined=COUNT)),
        marks=many(record(ref=TEXT, at=MOMENT, end=MOMENT)),
    ),
    changes=many(
        record(
            basis={"enum": ["previous_brief", "job"]},
            title=TEXT,
            job_id=TEXT,
            revision={"type": "integer", "minimum": 1},
            sha256=HASH,
            unchanged=COUNT,
            groups=many(
                record(
                    holdings={**many(record(id=TEXT, name=TEXT)), "minItems": 1},
                    changes={**many(CHANGE), "minItems": 1},
                )
            ),
        )
    ),
    exposure=record(
        with_findings=many(EXPOSURE_LINE),
        without_findings=many(EXPOSURE_LINE),
        looked_for_ms=COUNT,
        looked_for_share_pct=maybe(DECIMAL),
        looked_for_in=SPANS,
        caution=TEXT,
    ),
    evidence=many(record(ref=TEXT, is_cut=FLAG, text=TEXT, marks=many(MARK), source=SOURCE)),
    coverage=record(
        source_end=SOURCE_END,
        base=TEXT,
        time=many(COVERAGE_LINE),
        picture=many(COVERAGE_LINE),
        sound=many(COVERAGE_LINE),
        filled_ms=COUNT,
        remarks=many(
            record(
                code=TEXT,
                message=TEXT,
                count=COUNT,
                start=maybe(MOMENT),
                end=maybe(MOMENT),
                epochs=many(COUNT),
            )
        ),
    ),
    method=many(TEXT),
    provenance=record(
        job_id=TEXT,
        release=TEXT,
        created_at=TIME,
        ended_at=maybe(TIME),
        options=many(SETTING),
        container=maybe(
            record(
                format=TEXT,
                origin_ms={"type": "integer"},
                declared_duration_ms=maybe(COUNT),
                packet_end_ms=maybe(COUNT),
                streams=many(
                    record(
                        index=COUNT,
                        kind=TEXT,
                        codec=maybe(TEXT),
                        is_chosen=FLAG,
                        reason=TEXT,
                        details=many(SETTING),
                    )
                ),
            )
        ),
        epochs=many(
            record(
                number=COUNT,
                start=MOMENT,
                engine=TEXT,
                revision=TEXT,
                device=TEXT,
                settings=many(SETTING),
                prompt_sha256=HASH,
                started_at=TIME,
                ended_at=maybe(TIME),
                wall_ms=maybe(COUNT),
                end_reason=maybe(TEXT),
                end_detail=maybe(TEXT),
                units=COUNT,
                units_kept=COUNT,
                drain_units=COUNT,
                listened=COUNT,
                spoke=COUNT,
                inference_ms=maybe(COUNT),
                is_audio_consumed=maybe(FLAG),
                is_utterance_open=maybe(FLAG),
                media=maybe(TOTALS),
            )
        ),
        findings_superseded=COUNT,
        evidence_superseded=COUNT,
        notes_superseded=COUNT,
        inference_ms=maybe(COUNT),
    ),
)
