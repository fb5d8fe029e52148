"""The duplex form is made without its speech renderer, and the model is left as it was."""

from __future__ import annotations

import pytest

from pipeline.engine.minicpm.loading import duplex_settings
from pipeline.engine.minicpm.text_only import text_only_duplex
from tests.pipeline.engine.minicpm.doubles import LOCK, DuplexDouble, ModelDouble


def test_the_constructor_needs_a_renderer_that_a_text_only_model_has_not() -> None:
    with pytest.raises(AttributeError, match="tts"):
        ModelDouble().as_duplex()


def test_the_renderer_is_skipped_for_the_one_call_and_restored() -> None:
    model = ModelDouble()
    duplex = text_only_duplex(model, generate_audio=False)  # type: ignore[arg-type]
    assert isinstance(duplex, DuplexDouble)
    assert "init_tts" not in vars(model)
    with pytest.raises(AttributeError, match="tts"):
        model.init_tts()


def test_the_renderer_is_restored_where_the_constructor_raises() -> None:
    model = ModelDouble(constructor_fails=True)
    with pytest.raises(ValueError, match="no processor"):
        text_only_duplex(model)
    assert "init_tts" not in vars(model)


def test_a_method_of_the_instance_itself_comes_back() -> None:
    model = ModelDouble()
    own = lambda **_: None  # noqa: E731
    model.init_tts = own  # type: ignore[method-assign]
    text_only_duplex(model)
    assert vars(model)["init_tts"] is own


def test_another_instance_keeps_its_renderer_meanwhile() -> None:
    model, other = ModelDouble(), ModelDouble()
    seen: list[bool] = []

    def look(**_: object) -> None:
        try:
            other.init_tts()
        except AttributeError:
            seen.append(True)

    model.as_duplex = look  # type: ignore[method-assign, assignment]
    text_only_duplex(model)
    assert seen == [True]


def test_every_setting_is_said() -> None:
    model = ModelDouble()
    text_only_duplex(model, **duplex_settings(LOCK.decode))
    assert model.settings == {
        "generate_audio": False,
        "chunk_ms": 1000,
        "first_chunk_ms": 1035,
        "sample_rate": 16000,
        "sliding_window_mode": "basic",
        "basic_window_high_tokens": 8000,
        "basic_window_low_tokens": 6000,
        "force_listen_count": 0,
        "temperature": 0.7,
        "top_k": 100,
        "top_p": 0.8,
        "listen_prob_scale": 1.0,
        "text_repetition_penalty": 1.05,
        "text_repetition_window_size": 512,
    }
