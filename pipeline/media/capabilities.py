"""Prints as JSON which demuxers and decoders there are; runs as a process of its own."""

from __future__ import annotations

import json
import sys

import av
import av.codec
import av.format

from pipeline.media.container import DEMUXERS

DECODERS = (
    *("h264", "hevc", "av1", "libdav1d", "vp8", "vp9", "prores", "dnxhd", "mjpeg", "mpeg1video"),
    *("mpeg2video", "mpeg4", "vc1", "wmv3", "theora", "ffv1", "g2m", "mss2"),
    *("aac", "mp3float", "opus", "vorbis", "flac", "alac", "ac3", "eac3", "dca", "wmav2"),
    *("speex", "amrnb", "amrwb", "pcm_s16le", "pcm_s24le", "pcm_f32le", "pcm_mulaw"),
)
"""What recordings of meetings, calls and broadcasts come in."""


def main() -> None:
    codecs = {name: _decoder(name) for name in DECODERS}
    # One demuxer answers to several names, joined by commas.
    known = {name for names in av.format.formats_available for name in names.split(",")}
    demuxers = {name: name in known for name in DEMUXERS.split(",")}
    found = {"av": av.__version__, "ffmpeg": str(av.ffmpeg_version_info)}
    json.dump({"versions": found, "decoders": codecs, "demuxers": demuxers}, sys.stdout)


def _decoder(name: str) -> dict[str, bool | str | None]:
    if name not in av.codec.codecs_available:
        return {"found": False, "usable": False, "problem": "not in this build of FFmpeg"}
    try:
        av.codec.CodecContext.create(name, "r")
    except (av.FFmpegError, ValueError) as error:
        return {"found": True, "usable": False, "problem": type(error).__name__}
    return {"found": True, "usable": True, "problem": None}


if __name__ == "__main__":
    main()
