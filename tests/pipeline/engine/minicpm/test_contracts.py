"""Upstream's code is what the adapter relies on, or each difference is told by name."""

from __future__ import annotations

import pytest

from pipeline.engine.minicpm.contracts import DECODER, METHODS, MODEL, check_contracts
from tests.pipeline.engine.minicpm.upstream import DECODER_TEXT, MODEL_TEXT


def told(model: str = MODEL_TEXT, decoder: str = DECODER_TEXT) -> dict[str, str]:
    problems = check_contracts({MODEL: model, DECODER: decoder})
    assert {problem.code for problem in problems} <= {"contract_broken"}
    return {problem.where.split()[1]: problem.message for problem in problems}


def test_code_that_keeps_every_contract_has_no_problem() -> None:
    assert told() == {}


def test_further_parameters_with_defaults_change_nothing_for_the_adapter() -> None:
    changed = MODEL_TEXT.replace("top_k=100,", "top_k=100,\n        seed=None,")
    assert told(changed) == {}


@pytest.mark.parametrize("method", [f"{each.owner}.{each.name}" for each in METHODS])
def test_a_method_that_was_renamed_is_missed(method: str) -> None:
    owner, name = method.split(".")
    text = MODEL_TEXT if owner != "StreamDecoder" else DECODER_TEXT
    changed = text.replace(f"def {name}(", f"def {name}_now(")
    found = told(changed) if owner != "StreamDecoder" else told(decoder=changed)
    assert found == {method: "there is no such method"}


BROKEN = {
    "a default": ("top_k=100", "top_k=20", "streaming_generate", "parameter top_k has"),
    "a default that is gone": (
        "def as_duplex(self, device: Optional[str] = None",
        "def as_duplex(self, device: Optional[str]",
        "as_duplex",
        "parameter device has no default; the default None is accepted",
    ),
    "a parameter": ("listen_top_k=None,\n", "", "streaming_generate", "no parameter listen_top_k"),
    "the order": (
        "audio_waveform=None,\n        frame_list: Optional[list] = None",
        "frame_list=None,\n        audio_waveform=None",
        "streaming_prefill",
        "in another order",
    ),
    "something a call must give": (
        "def set_session_stop(self)",
        "def set_session_stop(self, reason)",
        "set_session_stop",
        "must give parameter reason",
    ),
    "the silenced stop": (
        "self.session_stop_event.set()",
        "pass",
        "set_session_stop",
        "no call of set outside",
    ),
    "a speech module under a condition": (
        "        instance.model.init_tts(",
        "        if kwargs:\n            instance.model.init_tts(",
        "from_existing_model",
        "no call of init_tts outside conditions",
    ),
    "a constructor of another name": (
        "MiniCPMODuplex.from_existing_model(model",
        "MiniCPMODuplex.build(model",
        "as_duplex",
        "no call of from_existing_model",
    ),
    "a unit that is not opened": (
        "        self.decoder.register_unit_start()\n",
        "",
        "streaming_prefill",
        "no call of register_unit_start",
    ),
    "a unit that is not closed": (
        '        self.decoder.register_unit_end(input_type="omni")\n',
        "",
        "streaming_generate",
        "no call of register_unit_end",
    ),
    "a unit that only speech closes": (
        '        self.decoder.register_unit_end(input_type="omni")\n',
        '        if token:\n            self.decoder.register_unit_end(input_type="omni")\n',
        "streaming_generate",
        "no call of register_unit_end outside conditions",
    ),
    "a window that is not applied": (
        "self.decoder.enforce_window()",
        "pass",
        "streaming_generate",
        "no call of enforce_window",
    ),
    "a window applied before the unit is registered": (
        '        self.decoder.register_unit_end(input_type="omni")\n'
        '        if self.mode == "basic":\n            self.decoder.enforce_window()\n',
        "        self.decoder.enforce_window()\n"
        '        self.decoder.register_unit_end(input_type="omni")\n',
        "streaming_generate",
        "no call of enforce_window in the order",
    ),
    "an encoder that keeps the last recording": (
        "self.audio_past_key_values = None",
        "pass",
        "reset_session",
        "does not set self.audio_past_key_values",
    ),
    "a context that is not protected": (
        "self.decoder.register_system_prompt()",
        "pass",
        "prepare",
        "no call of register_system_prompt",
    ),
    "the demo's interface": (
        "    def set_session_stop(self):",
        "    def finalize_unit(self): ...\n\n    def set_session_stop(self):",
        "finalize_unit",
        "another duplex interface",
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_what_upstream_changed_is_told_where_it_is(what: str) -> None:
    before, after, method, message = BROKEN[what]
    assert MODEL_TEXT.count(before) == 1
    found = told(MODEL_TEXT.replace(before, after))
    assert [where.split(".")[1] for where in found] == [method]
    assert message in "".join(found.values())


def test_a_file_that_is_missing_or_no_python_is_told() -> None:
    (problem,) = check_contracts({MODEL: MODEL_TEXT})
    assert (problem.code, problem.where) == ("contract_unreadable", DECODER)
    (problem,) = check_contracts({MODEL: "def (", DECODER: DECODER_TEXT})
    assert (problem.code, problem.where) == ("contract_unreadable", MODEL)


def test_calls_count_in_the_order_of_the_text_however_deep_they_stand() -> None:
    line = "        token = self.decoder.decode(logits=self.pending_logits, mode=decode_mode)\n"
    assert line in MODEL_TEXT
    deeper = f"        if True:\n            with self:\n{' ' * 8}{line}"
    assert told(MODEL_TEXT.replace(line, deeper)) == {}
