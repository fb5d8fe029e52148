"""A unit is decoded completely before the model sees it."""

from __future__ import annotations

import hashlib
import io
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from pipeline.engine.minicpm.inputs import decode, silence
from pipeline.errors import UnitRefused
from pipeline.records import Frame
from tests import units


def frame(form: str, mode: str = "RGB", size: tuple[int, int] = (64, 36)) -> Frame:
    buffer = io.BytesIO()
    Image.new(mode, size).save(buffer, form)
    data = buffer.getvalue()
    digest = hashlib.sha256(data).hexdigest()
    return Frame(source_ms=0, width_px=size[0], height_px=size[1], jpeg=data, sha256=digest)


def refused(given: Frame) -> str:
    with pytest.raises(UnitRefused) as caught:
        decode(units.unit(frame=given))
    assert caught.value.reason == "frame"
    return caught.value.message


def test_samples_are_one_row_of_float32_as_sent() -> None:
    sent = np.linspace(-1, 1, 16_000, dtype="<f4")
    samples = decode(units.unit(pcm=sent.tobytes(), frame=None)).samples
    assert (samples.dtype, samples.shape) == (np.float32, (16_000,))
    assert np.array_equal(samples, sent)


def test_a_unit_without_a_frame_has_no_picture_and_silence_has_neither() -> None:
    assert decode(units.unit(frame=None)).frames == []
    assert (silence().frames, silence().samples.any(), silence().samples.size) == (
        [],
        False,
        16_000,
    )


@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
def test_every_jpeg_becomes_one_rgb_picture(mode: str) -> None:
    (picture,) = decode(units.unit(frame=frame("JPEG", mode))).frames
    assert (picture.mode, picture.size) == ("RGB", (64, 36))


@pytest.mark.parametrize("form", ["PNG", "GIF", "WEBP"])
def test_another_format_is_refused_whatever_it_is_called(form: str) -> None:
    assert "no complete JPEG" in refused(frame(form))


def test_a_cut_picture_is_refused() -> None:
    whole = units.picture(90, width_px=320, height_px=180)
    assert "no complete JPEG" in refused(replace(whole, jpeg=whole.jpeg[:-200]))
    assert "no complete JPEG" in refused(replace(whole, jpeg=b""))


def test_a_picture_that_is_larger_than_it_says_is_refused_before_it_is_decoded() -> None:
    # Only the size in the header is changed, so that decoding it would fail in another way.
    small = units.picture(90)
    at = small.jpeg.index(b"\xff\xc0") + 5
    huge = small.jpeg[:at] + (9000).to_bytes(2, "big") * 2 + small.jpeg[at + 4 :]
    assert "64×36" in refused(replace(small, jpeg=huge))


def test_a_decompression_bomb_is_refused() -> None:
    small = units.picture(90)
    at = small.jpeg.index(b"\xff\xc0") + 5
    huge = small.jpeg[:at] + (65000).to_bytes(2, "big") * 2 + small.jpeg[at + 4 :]
    assert "no complete JPEG" in refused(replace(small, jpeg=huge, width_px=65000, height_px=65000))


@pytest.mark.parametrize(
    ("size", "fed"),
    [
        ((20, 1), (20, 14)),
        ((3, 3), (14, 14)),
        ((1, 20), (14, 20)),
        ((448, 13), (448, 23)),  # 448 / 20 = 22.4
        ((448, 22), (448, 23)),
        ((13, 400), (20, 400)),
    ],
)
def test_a_shape_that_breaks_the_models_own_code_stands_in_black(
    size: tuple[int, int], fed: tuple[int, int]
) -> None:
    shown = units.picture(200, width_px=size[0], height_px=size[1])
    (picture,) = decode(units.unit(frame=shown)).frames
    assert picture.size == fed
    light = np.asarray(picture.convert("L")) > 128
    assert light.sum() == size[0] * size[1]
    assert light[(fed[1] - 1) // 2, (fed[0] - 1) // 2]


@pytest.mark.parametrize("size", [(14, 14), (448, 23), (23, 448), (1920, 1080), (1080, 1920)])
def test_shapes_of_real_pictures_are_taken(size: tuple[int, int]) -> None:
    shown = units.picture(9, width_px=size[0], height_px=size[1])
    assert decode(units.unit(frame=shown)).frames[0].size == size
