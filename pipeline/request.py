"""What was asked for, checked as a whole: objective, title, date, engine and options."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping
from datetime import date

from pipeline.characters import control_character, pointer_token, quoted
from pipeline.errors import InputRefused, Problem
from pipeline.records import Options, Probe, Request

OBJECTIVE_CHARS_MAX = 4_000
"""About 1,000 tokens of English: a quarter of the prompt's 4,000, the rest is for the holdings."""

TITLE_CHARS_MAX = 200
"""One or two lines at the head of a brief."""

OPTION_BOUNDS: Mapping[str, tuple[int, int]] = {
    "output_max_tokens_per_unit": (8, 64),
    "frame_longest_edge_px": (112, 1920),
    "max_slice_nums": (1, 9),
    "seed": (0, 2**32 - 1),
    # The end of the recording is the real bound; this one keeps the number inside 32 bits.
    "start_s": (0, 2**31 - 1),
    "live_update_interval_seconds": (1, 30),
    # The file itself is the real bound.
    "audio_stream": (0, 2**31 - 1),
    "video_stream": (0, 2**31 - 1),
}
"""Least and greatest value of every option, both allowed."""

MAY_BE_NULL = frozenset({"audio_stream", "video_stream"})
"""Options that may be given without a value: the choice is left to OmnAI."""

_ISO_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def build_request(
    *,
    objective: object,
    title: object,
    event_date: object,
    engine: object,
    options: Mapping[str, object],
    engines: Collection[str],
) -> Request:
    """Check everything and raise InputRefused with all problems at once, by JSON pointer.

    `title` and `event_date` may be None or blank; `event_date` is a date or `YYYY-MM-DD`.
    """
    problems: list[Problem] = []
    checked_objective = _objective(objective, problems)
    checked_title = _title(title, problems)
    checked_date = _event_date(event_date, problems)
    checked_engine = _engine(engine, engines, problems)
    checked_options = _options(options, problems)
    if problems:
        raise InputRefused(*problems)
    return Request(
        objective=checked_objective,
        title=checked_title,
        event_date=checked_date,
        engine=checked_engine,
        options=checked_options,
    )


def recording_problems(options: Options, probe: Probe) -> list[Problem]:
    """What the recording does not have of what was asked for: streams, and the first second, by its
    packets."""
    problems: list[Problem] = []
    end_ms = probe.packet_end_ms
    if end_ms is not None and options.start_s * 1000 >= max(end_ms, 1):
        _refuse(
            problems,
            "start_past_end",
            "/options/start_s",
            f"second {options.start_s} is at or after the end of the recording; 0 to"
            f" {max(end_ms - 1, 0) // 1000} are accepted",
        )
    for kind, index in (("audio", options.audio_stream), ("video", options.video_stream)):
        usable = [s for s in probe.streams if s.kind == kind and s.is_usable]
        if index is None or index in [stream.index for stream in usable]:
            continue
        listed = ", ".join(f"{s.index} ({s.codec or 'unknown codec'})" for s in usable)
        _refuse(
            problems,
            "stream_unknown",
            f"/options/{kind}_stream",
            f"the recording has no {kind} stream {index} that can be fed; accepted:"
            f" {listed + ' or null' if listed else 'null, for it has none'}",
        )
    return problems


def _objective(value: object, problems: list[Problem]) -> str:
    if value is None or (isinstance(value, str) and not value.strip()):
        _refuse(
            problems,
            "objective_missing",
            "/objective",
            f"it is empty; say in 1 to {OBJECTIVE_CHARS_MAX} characters what you want to learn",
        )
        return ""
    if not isinstance(value, str):
        _refuse(problems, "objective_type", "/objective", f"it is {_kind(value)}; give text")
        return ""
    text = value.strip().replace("\r\n", "\n").replace("\r", "\n")
    if len(text) > OBJECTIVE_CHARS_MAX:
        _refuse(
            problems,
            "objective_too_long",
            "/objective",
            f"it has {len(text)} characters; at most {OBJECTIVE_CHARS_MAX} are accepted",
        )
    _refuse_control(text, "/objective", problems, allowed="\n\t")
    return text


def _title(value: object, problems: list[Problem]) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        _refuse(problems, "title_type", "/title", f"it is {_kind(value)}; give text or nothing")
        return None
    text = value.strip()
    if len(text) > TITLE_CHARS_MAX:
        _refuse(
            problems,
            "title_too_long",
            "/title",
            f"it has {len(text)} characters; at most {TITLE_CHARS_MAX} are accepted",
        )
    _refuse_control(text, "/title", problems, allowed="")
    return text or None


def _event_date(value: object, problems: list[Problem]) -> date | None:
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if type(value) is date:
        return value
    # Checked by shape first: later Pythons read more forms of ISO 8601 than 3.10 does.
    if isinstance(value, str) and _ISO_DATE.fullmatch(value.strip()):
        try:
            return date.fromisoformat(value.strip())
        except ValueError:
            pass
    _refuse(
        problems,
        "event_date_invalid",
        "/event_date",
        "it is no day of the calendar as YYYY-MM-DD, for example 2026-03-31",
    )
    return None


def _engine(value: object, engines: Collection[str], problems: list[Problem]) -> str:
    if isinstance(value, str) and value in engines:
        return value
    known = f"accepted: {', '.join(sorted(engines)) or 'none is installed'}"
    if isinstance(value, str):
        _refuse(problems, "engine_unknown", "/engine", f"no engine {quoted(value)}; {known}")
    else:
        _refuse(problems, "engine_type", "/engine", f"it is {_kind(value)}; {known}")
    return ""


def _options(given: Mapping[str, object], problems: list[Problem]) -> Options:
    accepted: dict[str, int] = {}
    for name, value in given.items():
        bounds = OPTION_BOUNDS.get(name)
        where = f"/options/{pointer_token(str(name))}"
        if bounds is None:
            near = difflib.get_close_matches(str(name)[:100], OPTION_BOUNDS, n=1)
            hint = f"did you mean {near[0]}?" if near else f"accepted: {', '.join(OPTION_BOUNDS)}"
            _refuse(problems, "option_unknown", where, f"no such option; {hint}")
            continue
        least, greatest = bounds
        expected = f"a whole number from {least} to {greatest} is accepted"
        if value is None and name in MAY_BE_NULL:
            continue
        if isinstance(value, bool) or not isinstance(value, int):
            _refuse(problems, "option_type", where, f"it is {_kind(value)}; {expected}")
        elif not least <= value <= greatest:
            _refuse(problems, "option_out_of_bounds", where, f"it is out of bounds; {expected}")
        else:
            accepted[name] = value
    return Options(**accepted)


def _refuse_control(text: str, where: str, problems: list[Problem], *, allowed: str) -> None:
    found = control_character(text, allowed=allowed)
    if found is not None:
        breaks = "; line breaks and tabs are accepted" if allowed else ""
        _refuse(problems, "text_control_character", where, f"{found}; give plain text{breaks}")


def _refuse(problems: list[Problem], code: str, where: str, message: str) -> None:
    problems.append(Problem(code=code, where=where, message=message))


def _kind(value: object) -> str:
    if value is None:
        return "missing"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, str):
        return "text"
    if isinstance(value, float):
        return "a number with a fraction"
    if isinstance(value, int):
        return "a number"
    return "not a single value"
