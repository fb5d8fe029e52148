"""Makes samples/sample.mp4: slides and tones whose change times are known, H.264 and AAC.

Run it as `python scripts/make_sample.py [FILE]`; the result is committed, so that nobody needs to.
"""

from __future__ import annotations

import sys
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from PIL import Image, ImageDraw, ImageFont

DURATION_S = 72
WIDTH_PX, HEIGHT_PX, FRAMES_PER_S = 640, 360, 10
RATE_HZ = 48_000
SAMPLES_PER_FRAME = 1024

SLIDES = (
    (0, "Arden Instruments", "Investor day, an invented company", 0),
    (12, "Revenue", "412 million, up 8 percent", 60),
    (26, "Order book", "1.9 billion at the end of March", 110),
    (40, "Guidance", "Raised for the year to 1.7 billion", 30),
    (58, "Questions", "Thank you", 90),
)
"""Second at which each slide appears, its title, its line, and its background's grey level."""

TONES = (
    (0, 20, 300),
    (23, 33, 440),
    (36, 48, 520),
    (52, 66, 610),
)
"""From and to which second a tone sounds, and its frequency in Hz; between them it is silent."""


def slide_at(second: float) -> tuple[int, str, str, int]:
    """The slide on screen at a second."""
    return [slide for slide in SLIDES if slide[0] <= second][-1]


def draw(slide: tuple[int, str, str, int]) -> Image.Image:
    """One slide as a picture."""
    number = SLIDES.index(slide) + 1
    ground, ink = slide[3], 235 if slide[3] < 128 else 20
    image = Image.new("RGB", (WIDTH_PX, HEIGHT_PX), (ground, ground, ground + 20))
    pen = ImageDraw.Draw(image)
    pen.rectangle((0, 0, WIDTH_PX * number // len(SLIDES), 8), fill=(200, 160, 60))
    pen.text((48, 110), slide[1], font=ImageFont.load_default(48), fill=(ink, ink, ink))
    pen.text((48, 190), slide[2], font=ImageFont.load_default(24), fill=(ink, ink, ink))
    pen.text((48, 320), f"Sample {number}", font=ImageFont.load_default(16), fill=(ink, ink, ink))
    return image


def tone(first: int, count: int) -> np.ndarray:
    """Samples `first` to `first + count` of the sound track, at most 0.2 of full scale."""
    at = np.arange(first, first + count) / RATE_HZ
    sound = np.zeros(count)
    for start, end, hertz in TONES:
        sounding = (at >= start) & (at < end)
        sound[sounding] = 0.2 * np.sin(2 * np.pi * hertz * at[sounding])
    return sound.astype(np.float32)


def main(path: Path) -> None:
    """Encode the sample."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w", format="mp4", options={"movflags": "+faststart"}) as container:
        video = container.add_stream("libx264", rate=FRAMES_PER_S, options={"crf": "26"})
        video.width, video.height, video.pix_fmt = WIDTH_PX, HEIGHT_PX, "yuv420p"
        video.codec_context.gop_size = FRAMES_PER_S * 10
        audio = container.add_stream("aac", rate=RATE_HZ, layout="mono")
        audio.bit_rate = 48_000
        pictures = {slide: draw(slide) for slide in SLIDES}
        for number in range(DURATION_S * FRAMES_PER_S):
            frame = av.VideoFrame.from_image(pictures[slide_at(number / FRAMES_PER_S)])
            frame.pts, frame.time_base = number, Fraction(1, FRAMES_PER_S)
            container.mux(video.encode(frame))
        container.mux(video.encode(None))
        for first in range(0, DURATION_S * RATE_HZ, SAMPLES_PER_FRAME):
            count = min(SAMPLES_PER_FRAME, DURATION_S * RATE_HZ - first)
            sound = av.AudioFrame.from_ndarray(
                tone(first, count)[None], format="fltp", layout="mono"
            )
            sound.sample_rate, sound.pts, sound.time_base = RATE_HZ, first, Fraction(1, RATE_HZ)
            container.mux(audio.encode(sound))
        container.mux(audio.encode(None))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("samples/sample.mp4"))
