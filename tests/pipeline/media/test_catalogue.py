"""Every case of a folder of known recordings, against what an independent decoder found in it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import MediaStopped, RecordingRefused
from pipeline.media_child import MediaChild
from pipeline.records import Gap, MediaEnd, Probe, Unit
from pipeline.settings import MediaLimits
from tests.pipeline.media.watched import Watched, check_rules

FOLDER_SETTING = "OMNAI_TEST_MEDIA"
"""A folder with recordings and `expected.json`."""

FOLDER = os.environ.get(FOLDER_SETTING)
CASES: dict[str, Any] = (
    json.loads((Path(FOLDER) / "expected.json").read_text()) if FOLDER is not None else {}
)

pytestmark = pytest.mark.skipif(
    FOLDER is None, reason=f"set {FOLDER_SETTING} to a folder with recordings and expected.json"
)


def read(path: Path) -> Watched:
    """Through a media process, for some cases end the process that reads them."""
    units, gaps = [], []
    probe, end = None, None
    with MediaChild(path, limits=MediaLimits(), longest_edge_px=448) as media:
        for event in media:
            match event:
                case Probe():
                    probe = event
                case Unit():
                    units.append(event)
                case Gap():
                    gaps.append(event)
                case MediaEnd():
                    end = event
    assert probe is not None
    assert end is not None
    return Watched(probe=probe, units=units, gaps=gaps, end=end)


@pytest.mark.parametrize("name", sorted(CASES) or ["none"])
def test_the_recording_gives_what_it_holds(name: str) -> None:
    assert FOLDER is not None
    path, expected = Path(FOLDER) / name, CASES[name]
    if expected["expect"] == "refused":
        with pytest.raises(RecordingRefused) as caught:
            read(path)
        assert caught.value.message
        return
    try:
        watched = read(path)
    except (RecordingRefused, MediaStopped):
        assert expected["expect"] == "either"
        return
    check_rules(watched)
    if expected["expect"] == "either":
        return
    least, most = expected["units"]
    assert least <= len(watched.units) <= most
    least, most = expected["pictures"]
    assert least <= len(watched.own_frames) <= most
    least, most = expected["audio_s"] or (0, 0)
    assert least <= watched.end.real_samples / 16_000 <= most
    if "span" in expected:
        least, most = expected["span"]
        assert least <= watched.units[-1].second + 1 <= most
