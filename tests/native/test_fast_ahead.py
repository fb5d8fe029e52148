"""The next second is prepared beside this one, and a wrong guess changes nothing."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pipeline.engine.minicpm.fast.ahead import Ahead
from pipeline.errors import UnitRefused
from tests import units

NEED = 16_000


class Extractor:
    floor = 0.0


class Mel:
    """Looks back on everything heard, as the native one does for half a minute."""

    def __init__(self) -> None:
        self.feature_extractor = Extractor()
        self.buffer = np.zeros(0, np.float32)
        self.count = 0

    def process(self, samples: Any) -> float:
        if not np.isfinite(samples).all():
            raise ValueError("no numbers")
        self.count += 1
        self.buffer = np.concatenate([self.buffer, samples])
        self.feature_extractor.floor = float(self.buffer.min())
        return float(self.buffer.sum()) + self.count + self.feature_extractor.floor


class Processor:
    def __init__(self) -> None:
        self._streaming_mel_processor = Mel()
        self.calls = 0

    def get_streaming_chunk_size(self) -> int:
        return NEED

    def process_audio_streaming(
        self, audio_chunk: Any, reset: bool = False, return_batch_feature: bool = False
    ) -> float:
        self.calls += 1
        return self._streaming_mel_processor.process(audio_chunk)


class Listening:
    """Calls as the official prefill does."""

    def __init__(self, *, is_ahead: bool) -> None:
        self.processor = Processor()
        self.duplex = SimpleNamespace(processor=self.processor, audio_buffer=np.zeros(80))
        self.sliced: list[int] = []
        self.ahead = Ahead(self.duplex, lambda images, most: self.sliced.append(most))
        if is_ahead:
            vars(self.processor)["process_audio_streaming"] = self.ahead.process_audio_streaming

    def second(self, unit: units.Unit) -> float:
        samples = self.ahead.take(unit).samples
        duplex = self.duplex
        duplex.audio_buffer = np.concatenate([duplex.audio_buffer, samples]).astype(np.float32)
        answer = self.processor.process_audio_streaming(
            duplex.audio_buffer[:NEED], reset=False, return_batch_feature=True
        )
        duplex.audio_buffer = duplex.audio_buffer[NEED:]
        return float(answer)


def recording(count: int) -> list[units.Unit]:
    return [
        units.unit(
            nth,
            pcm=np.random.default_rng(nth)
            .normal(0, 0.1, 16_000)
            .clip(-1, 1)
            .astype("<f4")
            .tobytes(),
            frame=units.picture(nth),
        )
        for nth in range(count)
    ]


def heard(fed: list[units.Unit], guesses: list[units.Unit | None]) -> tuple[list[float], Ahead]:
    listening = Listening(is_ahead=True)
    answers = []
    for unit, guess in zip(fed, guesses, strict=True):
        if guess is not None:
            listening.ahead.expect(guess, 1)
        answers.append(listening.second(unit))
    assert len(listening.sliced) == sum(guess is not None for guess in guesses)
    return answers, listening.ahead


def plain(fed: list[units.Unit]) -> list[float]:
    listening = Listening(is_ahead=False)
    return [listening.second(unit) for unit in fed]


def test_every_second_after_the_first_is_there_when_it_is_asked_for() -> None:
    fed = recording(6)
    answers, ahead = heard(fed, [*fed[1:], None])
    assert answers == plain(fed)
    assert (ahead.used, ahead.decoded) == (5, 5)


def test_a_wrong_guess_changes_nothing() -> None:
    fed = recording(6)
    answers, ahead = heard(fed, [fed[5], fed[2], None, fed[0], fed[5], None])
    assert answers == plain(fed)
    assert ahead.used == 2


def test_a_guess_for_a_recording_that_was_reset_is_not_taken() -> None:
    fed = recording(3)
    listening = Listening(is_ahead=True)
    listening.ahead.expect(fed[1], 1)
    listening.second(fed[0])
    listening.processor._streaming_mel_processor = Mel()
    again = Listening(is_ahead=False)
    again.duplex.audio_buffer = listening.duplex.audio_buffer
    assert listening.second(fed[1]) == again.second(fed[1])
    assert listening.ahead.used == 0


@pytest.mark.parametrize(
    "spoilt",
    [
        {"pcm": bytes(60_000)},
        {"pcm": np.full(16_000, np.nan, "<f4").tobytes()},
        {"frame": replace(units.picture(1), jpeg=b"\xff\xd8\xff")},
        {"frame": replace(units.picture(1), width_px=4_000)},
    ],
)
def test_a_unit_that_is_refused_is_refused_when_it_is_taken(spoilt: dict[str, Any]) -> None:
    fed = recording(3)
    bad = replace(fed[1], **spoilt)
    listening = Listening(is_ahead=True)
    listening.ahead.expect(bad, 1)
    first = listening.second(fed[0])
    with pytest.raises(UnitRefused):
        listening.ahead.take(bad)
    assert [first, listening.second(fed[1])] == plain(fed[:2])


def test_a_spectrum_asked_for_in_another_way_is_the_official_one() -> None:
    fed = recording(2)
    listening = Listening(is_ahead=True)
    listening.ahead.expect(fed[1], 1)
    listening.second(fed[0])
    samples = np.ones(NEED, np.float32)
    before = listening.processor.calls
    listening.ahead.process_audio_streaming(samples, reset=False)
    assert listening.processor.calls == before + 1
    assert listening.ahead.used == 0
