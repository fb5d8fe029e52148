"""What the adapter relies on in upstream's code, checked on its syntax; nothing is imported."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pipeline.errors import Problem

MODEL = "modeling_minicpmo.py"
DECODER = "utils.py"


@dataclass(frozen=True, kw_only=True)
class Method:
    """One method, and what must be true of it."""

    file: str
    owner: str
    name: str
    parameters: str | None = None
    """As Python writes them, without types: each with this default, in this order. Others may
    stand beside them where a call need not give them."""
    calls: tuple[str, ...] = ()
    """Calls by their last name, in this order in the text; others may stand between."""
    always: tuple[str, ...] = ()
    """Calls that stand under no condition, loop or handler of the method."""
    sets: tuple[str, ...] = ()
    """Attributes of `self` that it assigns."""


_PREFILL = (
    "self, audio_waveform=None, frame_list=None, text_list=None, max_slice_nums=1,"
    " batch_vision_feed=False"
)
_GENERATE = (
    "self, prompt_wav_path=None, max_new_speak_tokens_per_chunk=20, decode_mode='sampling',"
    " temperature=0.7, top_k=100, top_p=0.8, listen_prob_scale=1.0, listen_top_k=None,"
    " text_repetition_penalty=1.05, text_repetition_window_size=512"
)

METHODS = (
    Method(file=MODEL, owner="MiniCPMO", name="as_duplex", parameters="self, device=None"),
    Method(file=MODEL, owner="MiniCPMO", name="init_tts"),
    Method(file=MODEL, owner="MiniCPMO", name="init_streaming_processor", parameters="self"),
    Method(
        file=MODEL,
        owner="MiniCPMO",
        name="reset_session",
        parameters="self",
        # The audio encoder carries the last recording into the next one otherwise.
        sets=("audio_past_key_values",),
    ),
    Method(
        file=MODEL,
        owner="MiniCPMODuplex",
        name="prepare",
        parameters="self, prefix_system_prompt=None, ref_audio=None, prompt_wav_path=None",
        # The order that the batched context repeats.
        calls=(
            "clear_break_event",
            "clear_session_stop",
            "_reset_streaming_state",
            "reset",
            "init_streaming_processor",
            "encode",
            "feed",
            "register_system_prompt",
        ),
        always=("clear_break_event", "clear_session_stop", "_reset_streaming_state", "reset"),
    ),
    Method(
        file=MODEL,
        owner="MiniCPMODuplex",
        name="streaming_prefill",
        parameters=_PREFILL,
        calls=("is_session_stop_set", "register_unit_start", "feed"),
        always=("register_unit_start",),
    ),
    Method(
        file=MODEL,
        owner="MiniCPMODuplex",
        name="streaming_generate",
        parameters=_GENERATE,
        # It closes and registers the unit and applies the window itself, listening units too.
        calls=("is_session_stop_set", "decode", "feed", "register_unit_end", "enforce_window"),
        always=("register_unit_end",),
    ),
    Method(
        file=MODEL,
        owner="MiniCPMODuplex",
        name="set_session_stop",
        parameters="self",
        always=("set",),
    ),
    Method(
        file=MODEL,
        owner="MiniCPMODuplex",
        name="_reset_streaming_state",
        parameters="self",
        sets=("current_turn_ended", "res_ids", "total_ids", "total_hidden", "audio_buffer"),
    ),
    Method(
        file=DECODER,
        owner="StreamDecoder",
        name="reset",
        parameters="self",
        sets=("cache", "generated_tokens", "_unit_history", "_system_preserve_length"),
    ),
    Method(file=DECODER, owner="StreamDecoder", name="get_cache_length", parameters="self"),
    Method(file=DECODER, owner="StreamDecoder", name="register_system_prompt", parameters="self"),
    Method(file=DECODER, owner="StreamDecoder", name="register_unit_start", parameters="self"),
    Method(
        file=DECODER,
        owner="StreamDecoder",
        name="register_unit_end",
        parameters="self, input_type, generated_tokens=None, is_listen=False, generated_text=None",
        calls=("get_cache_length",),
    ),
    Method(
        file=DECODER,
        owner="StreamDecoder",
        name="enforce_window",
        parameters="self",
        calls=("get_cache_length", "_drop_next_unit"),
    ),
    Method(
        file=DECODER, owner="StreamDecoder", name="set_window_config", parameters="self, config"
    ),
    Method(
        file=DECODER, owner="StreamDecoder", name="set_window_enabled", parameters="self, enabled"
    ),
    Method(file=DECODER, owner="StreamDecoder", name="embed_token", parameters="self, tid"),
    Method(file=DECODER, owner="StreamDecoder", name="embed_tokens", parameters="self, token_ids"),
    Method(
        file=DECODER,
        owner="StreamDecoder",
        name="feed",
        parameters="self, embeds, return_logits=False",
    ),
)

CONSTRUCTOR_ALWAYS = ("init_tts", "set_window_config", "set_window_enabled")
"""What `as_duplex` reaches under no condition: the first is why the adapter needs its no-op."""

OTHER_INTERFACE = ("finalize_unit",)
"""Methods of the demo's duplex class, which closes its units elsewhere; the two must not mix."""


def check_contracts(texts: Mapping[str, str]) -> tuple[Problem, ...]:
    """Everything in the text of `MODEL` and `DECODER` that is not as the adapter needs it."""
    problems: list[Problem] = []
    classes: dict[tuple[str, str], dict[str, ast.FunctionDef]] = {}
    for file in (MODEL, DECODER):
        try:
            classes.update(_classes(file, texts[file]))
        except KeyError:
            problems.append(_problem(file, "contract_unreadable", "it is missing"))
        except (SyntaxError, ValueError) as error:
            reason = f"it is no Python that this version reads ({type(error).__name__})"
            problems.append(_problem(file, "contract_unreadable", reason))
    if problems:
        return tuple(problems)
    for wanted in METHODS:
        found = classes.get((wanted.file, wanted.owner), {}).get(wanted.name)
        where = f"{wanted.file} {wanted.owner}.{wanted.name}"
        if found is None:
            problems.append(_problem(where, "contract_broken", "there is no such method"))
        else:
            problems += [
                _problem(where, "contract_broken", reason) for reason in _breaches(wanted, found)
            ]
    problems += _constructor_problems(classes)
    return tuple(problems)


def _problem(where: str, code: str, message: str) -> Problem:
    return Problem(code=code, where=where, message=message)


def _classes(file: str, text: str) -> dict[tuple[str, str], dict[str, ast.FunctionDef]]:
    return {
        (file, node.name): {
            each.name: each for each in node.body if isinstance(each, ast.FunctionDef)
        }
        for node in ast.parse(text).body
        if isinstance(node, ast.ClassDef)
    }


def _constructor_problems(
    classes: Mapping[tuple[str, str], Mapping[str, ast.FunctionDef]],
) -> Iterator[Problem]:
    duplex = classes.get((MODEL, "MiniCPMODuplex"), {})
    made_by = "from_existing_model"
    as_duplex = classes.get((MODEL, "MiniCPMO"), {}).get("as_duplex")
    constructor = duplex.get(made_by)
    where = f"{MODEL} MiniCPMODuplex.{made_by}"
    if as_duplex is not None and made_by not in _called(as_duplex):
        yield _problem(f"{MODEL} MiniCPMO.as_duplex", "contract_broken", f"no call of {made_by}")
    if constructor is None:
        yield _problem(where, "contract_broken", "there is no such method")
    else:
        for name in _missing_always(constructor, CONSTRUCTOR_ALWAYS):
            yield _problem(where, "contract_broken", f"no call of {name} outside conditions")
    for name in OTHER_INTERFACE:
        if name in duplex:
            yield _problem(
                f"{MODEL} MiniCPMODuplex.{name}",
                "contract_broken",
                "a method of another duplex interface, whose units are closed elsewhere",
            )


def _breaches(wanted: Method, found: ast.FunctionDef) -> Iterator[str]:
    if wanted.parameters is not None:
        yield from _parameter_breaches(wanted.parameters, found.args)
    called = iter(_called(found))
    # `in` takes from the iterator, so that each is looked for after the one before.
    for name in wanted.calls:
        if name not in called:
            yield f"no call of {name} in the order {', '.join(wanted.calls)}"
            break
    for name in _missing_always(found, wanted.always):
        yield f"no call of {name} outside conditions"
    assigned = _assigned(found)
    for name in wanted.sets:
        if name not in assigned:
            yield f"it does not set self.{name}"


def _parameter_breaches(wanted: str, found: ast.arguments) -> Iterator[str]:
    expected = _defaults(_arguments(wanted))
    there = _defaults(found)
    for name, default in expected.items():
        if name not in there:
            yield f"no parameter {name}"
        elif there[name] != default:
            has, needs = (
                "no default" if each is None else f"the default {each}"
                for each in (there[name], default)
            )
            yield f"parameter {name} has {has}; {needs} is accepted"
    if [name for name in there if name in expected] != [name for name in expected if name in there]:
        yield f"its parameters are in another order than {wanted}"
    for name, default in there.items():
        if name not in expected and default is None:
            yield f"a call must give parameter {name}, which the adapter does not know"


def _arguments(parameters: str) -> ast.arguments:
    function = ast.parse(f"def wanted({parameters}): ...").body[0]
    assert isinstance(function, ast.FunctionDef)
    return function.args


def _defaults(arguments: ast.arguments) -> dict[str, str | None]:
    """Each named parameter's default as Python writes it; None where a call must give it."""
    positional = arguments.posonlyargs + arguments.args
    without = len(positional) - len(arguments.defaults)
    given: list[ast.expr | None] = [*[None] * without, *arguments.defaults]
    pairs = [
        *zip(positional, given, strict=True),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]
    return {each.arg: None if value is None else ast.unparse(value) for each, value in pairs}


def _called(function: ast.FunctionDef) -> list[str]:
    """Last names of everything that is called, in the order of the text."""
    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
    calls.sort(key=lambda node: (node.end_lineno or 0, node.end_col_offset or 0))
    return [name for name in map(_last_name, calls) if name is not None]


def _missing_always(function: ast.FunctionDef, names: tuple[str, ...]) -> list[str]:
    plain = {
        name
        for statement in function.body
        if isinstance(statement, ast.Expr | ast.Assign | ast.AnnAssign | ast.Return)
        and isinstance(statement.value, ast.Call)
        and (name := _last_name(statement.value)) is not None
    }
    return [name for name in names if name not in plain]


def _last_name(call: ast.Call) -> str | None:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else None


def _assigned(function: ast.FunctionDef) -> set[str]:
    return {
        node.attr
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }
