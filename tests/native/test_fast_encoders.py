"""Encoders that are repeated answer as the official ones, or leave it to them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.native import conftest

torch = pytest.importorskip("torch", reason=conftest.NEEDS_TORCH)
pytest.importorskip("transformers", reason=conftest.NEEDS_TORCH)

from pipeline.engine.minicpm.fast import pixels as picturing  # noqa: E402
from pipeline.engine.minicpm.fast import seeing  # noqa: E402
from pipeline.engine.minicpm.fast.hearing import Hearing  # noqa: E402
from pipeline.engine.minicpm.fast.looking import Looking  # noqa: E402
from pipeline.engine.minicpm.fast.pixels import Pixels  # noqa: E402
from pipeline.engine.minicpm.fast.seeing import Seeing  # noqa: E402
from tests.native.encoders import Encoders, Processor  # noqa: E402
from tests.native.harness import picture  # noqa: E402

SIZES = ([(2, 4)], [(2, 4), (2, 2)], [(3, 3)])


def seen(nth: int) -> dict[str, Any]:
    sizes = SIZES[nth % len(SIZES)]
    chooser = torch.Generator().manual_seed(nth)
    pixels = [torch.randn((3, 14, high * wide * 14), generator=chooser) for high, wide in sizes]
    return {"pixel_values": [pixels], "tgt_sizes": [torch.tensor(sizes)]}


def heard(nth: int, frames: int = 10) -> dict[str, Any]:
    chooser = torch.Generator().manual_seed(nth)
    features = torch.randn((1, 8, frames), generator=chooser)
    return {"audio_features": features, "audio_feature_lens": [torch.tensor([7])]}


def test_a_shape_seen_before_is_repeated_and_gives_the_same() -> None:
    model, official = Encoders(), Encoders()
    standing_in = Seeing(model, is_graphed=False)
    for nth in range(9):
        (theirs,), (ours,) = official.get_vision_embedding(seen(nth)), standing_in(seen(nth))
        assert torch.equal(theirs, ours)
    assert (model.calls, standing_in.refused) == (3, 0)


def test_shapes_are_forgotten_the_oldest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seeing, "SHAPES_MAX", 2)
    model = Encoders()
    standing_in = Seeing(model, is_graphed=False)
    for nth in (0, 1, 0, 2, 0, 1):
        standing_in(seen(nth))
    assert model.calls == 4  # the second shape went for the third one


def test_a_shape_that_answers_otherwise_stays_with_the_official_method(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(seeing, "_seen", lambda *given: torch.zeros(1))
    model, official = Encoders(), Encoders()
    standing_in = Seeing(model, is_graphed=False)
    for nth in (0, 3, 6):
        assert torch.equal(standing_in(seen(nth))[0], official.get_vision_embedding(seen(nth))[0])
    assert (model.calls, standing_in.refused) == (3, 1)


def test_what_is_no_single_batch_is_left_to_the_official_method() -> None:
    model = Encoders()
    model.get_vision_embedding = lambda data: "official"  # type: ignore[method-assign, assignment]
    standing_in = Seeing(model, is_graphed=False)
    for data in ({}, {"pixel_values": [[]], "tgt_sizes": []}, {"pixel_values": [[1], [2]]}):
        assert standing_in(data) == "official"


def test_an_epoch_hears_the_same_past_the_point_where_it_forgets() -> None:
    model, official = Encoders(), Encoders()
    standing_in = Hearing(model, is_graphed=False)
    for epoch in range(3):
        model.audio_past_key_values = official.audio_past_key_values = None
        for nth in range(15):
            frames = 12 if nth == 0 else 10
            theirs = official.get_audio_embedding_streaming(heard(nth, frames), scale=2)
            ours = standing_in(heard(nth, frames), scale=2)
            assert torch.equal(theirs[0][0], ours[0][0])
            assert (
                model.audio_past_key_values[0][0].shape
                == official.audio_past_key_values[0][0].shape
            )
        if epoch == 0:
            learned = model.calls
    assert standing_in.refused == 0
    # Called instead of captured, a repeated answer is the official method once more.
    assert model.calls - learned == 2 * 15


def test_what_was_heard_elsewhere_is_left_to_the_official_method() -> None:
    model, official = Encoders(), Encoders()
    standing_in = Hearing(model, is_graphed=False)
    for each in (model, official):
        each.get_audio_embedding_streaming(heard(0))
    ours = standing_in(heard(1))
    assert torch.equal(ours[0][0], official.get_audio_embedding_streaming(heard(1))[0][0])
    assert standing_in._graphs == {}


def test_a_length_that_answers_otherwise_stays_official_and_remembers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pipeline.engine.minicpm.fast.hearing._is_equal", lambda one, other: False)
    model, official = Encoders(), Encoders()
    standing_in = Hearing(model, is_graphed=False)
    for nth in range(8):
        theirs = official.get_audio_embedding_streaming(heard(nth))
        assert torch.equal(standing_in(heard(nth))[0][0], theirs[0][0])
    assert standing_in.refused > 0


@pytest.mark.parametrize("most", [1, 2])
def test_pictures_are_the_official_ones_bit_for_bit(most: int) -> None:
    processor, official = Processor(), Processor()
    standing_in = Pixels(processor, "cpu")
    for nth in range(4):
        images = [picture(nth, width_px=200 + nth % 2, height_px=90)]
        theirs = official.process_image(images, max_slice_nums=most)
        ours = standing_in(images, max_slice_nums=most)
        assert type(ours) is type(theirs)
        for mine, their in zip(ours["pixel_values"][0], theirs["pixel_values"][0], strict=True):
            assert torch.equal(mine, their)
        assert torch.equal(ours["tgt_sizes"][0], theirs["tgt_sizes"][0])
    assert (processor.calls, standing_in.refused) == (2, 0)


def test_a_picture_that_comes_out_otherwise_stays_with_the_official_code() -> None:
    processor = Processor()
    standing_in = Pixels(processor, "cpu")
    standing_in._table += 1e-7
    for nth in range(2):
        standing_in([picture(nth)], max_slice_nums=1)
    assert (processor.calls, standing_in.refused) == (2, 1)


def test_pictures_asked_for_in_another_way_are_left_to_the_official_code() -> None:
    processor = Processor()
    processor.process_image = lambda images=None, **named: "official"  # type: ignore[method-assign, assignment]
    standing_in = Pixels(processor, "cpu")
    assert standing_in(None) == "official"
    assert standing_in([picture(0)], max_slice_nums=1, do_pad=False) == "official"


def test_shapes_of_pictures_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(picturing, "SHAPES_MAX", 3)
    standing_in = Pixels(Processor(), "cpu")
    for nth in range(9):
        standing_in([picture(nth, width_px=100 + nth)], max_slice_nums=1)
    assert len(standing_in._is_equal) == 3


def test_what_was_looked_at_before_it_was_asked_for_is_taken_once() -> None:
    processor, model, official = Processor(), Encoders(), Encoders()
    pixels, sight = Pixels(processor, "cpu"), Seeing(model, is_graphed=False)
    looking = Looking(pixels, None)
    looking._seeing = sight  # on the processor there is no stream of its own

    def seen_of(images: list[Any]) -> Any:
        return sight(pixels(images, max_slice_nums=2))[0]

    def plainly(images: list[Any]) -> Any:
        return official.get_vision_embedding(Processor().process_image(images, max_slice_nums=2))[0]

    fed = [[picture(nth)] for nth in range(5)]
    looking(fed[0], 2)  # of a shape that nobody saw: it waits
    assert torch.equal(seen_of(fed[0]), plainly(fed[0]))
    assert sight.used == 0
    looking(fed[1], 2)
    assert torch.equal(seen_of(fed[1]), plainly(fed[1]))
    assert torch.equal(seen_of(fed[1]), plainly(fed[1]))  # once more, and not from before
    assert sight.used == 1
    looking(fed[2], 2)
    assert torch.equal(seen_of(fed[3]), plainly(fed[3]))  # another one came
    looking(fed[4], 1)
    assert torch.equal(seen_of(fed[4]), plainly(fed[4]))  # cut in another way
    assert (sight.used, model.calls, processor.calls) == (1, 1, 1)
