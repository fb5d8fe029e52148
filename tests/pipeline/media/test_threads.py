"""How many threads a decoder of pictures has."""

from __future__ import annotations

import pytest

from pipeline.media import tracks
from pipeline.media.tracks import Tracks
from pipeline.settings import MediaLimits
from tests.clips import Clips


@pytest.mark.parametrize(
    ("name", "codec", "threads"), [("a.ogv", "libtheora", 1), ("a.mkv", "libx264", 3)]
)
def test_a_decoder_whose_threads_race_has_one(
    clips: Clips, name: str, codec: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The race itself shows in one read of some dozens, on a busy machine only."""
    monkeypatch.setattr(tracks, "count_threads", lambda: 3)
    path = clips.encoded(name, 1, "-c:v", codec, "-an")
    opened = Tracks(str(path), MediaLimits())
    opened.open_all(pulse=lambda: None).close()
    container, stream = opened.open(0)
    assert stream.codec_context.thread_count == threads
    assert opened.decoder(0).thread_count == threads
    container.close()
