"""What travels beside a decoded picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from av.video.frame import VideoFrame


def side_data(frame: VideoFrame, name: str) -> bytes | None:
    """The bytes of this kind as FFmpeg lays them out; None where there are none.

    PyAV refuses all of a picture's where one is of a kind that it does not know yet, as the EXIF
    data of a camera's Motion JPEG and the views of a stereo recording are: None then too.
    """
    try:
        data: Any = frame.side_data.get(name)
    except ValueError:
        return None
    return None if data is None else memoryview(data).tobytes()
