"""Prints as JSON which demuxers and decoders there are, and what the process is kept from."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import av
import av.codec
import av.format

from pipeline.media.confine import confine
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
    told = {"versions": found, "decoders": codecs, "demuxers": demuxers}
    json.dump({**told, "confinement": _confinement()}, sys.stdout)


def _confinement() -> dict[str, str | None]:
    """By what means each thing is kept from this process, where it is: everything is tried."""
    held = asdict(confine(None))
    tries: dict[str, Callable[[], object]] = {
        "network": _reach_itself,
        "processes": _start_another,
        "writing": lambda: Path(os.devnull).open("wb").close(),
        "reading": lambda: Path(os.devnull).open("rb").close(),
    }
    return {name: how if _is_refused(tries[name]) else None for name, how in held.items()}


def _is_refused(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except OSError:
        return True
    return False


def _reach_itself() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sending:
        sending.connect(("127.0.0.1", 9))  # nothing is sent; it asks for a way there


def _start_another() -> None:
    if (pid := os.fork()) == 0:
        os._exit(0)
    os.waitpid(pid, 0)


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
