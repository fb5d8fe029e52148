"""Feeds damaged recordings to the real media process and counts what comes of them.

`python scripts/fuzz_media.py --count 10000 --seed 1 --workers 2`. Small recordings of every format
that is opened are made once and damaged in turn; file number N of a seed is always the same, and
`--only N --keep FOLDER` makes and feeds just that one. On a machine without an FFmpeg to make the
recordings, `--recordings FOLDER` takes those that `--record FOLDER` made elsewhere.

Each file goes through MediaChild and the process's own `main`: the same limits, filter, rules,
messages and checks as in the product. One thing differs, so that ten thousand take minutes: the
process is forked from one that has loaded the decoder's library already, unlimited, in place of
starting Python and loading it under the limits each time.

Ends with 1 where a unit is not valid, a process is left or hangs past its deadline, a file is left
or changed, or a fault of OmnAI's own is met.
"""

from __future__ import annotations

import argparse
import array
import contextlib
import io
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from pipeline.errors import MediaStopped, OmnaiError, RecordingRefused
from pipeline.media_child import ROOT, MediaChild, _environment
from pipeline.records import MediaEnd, Probe, Unit
from pipeline.settings import MediaLimits

LIMITS = MediaLimits(silence_s=30.0, scan_s=60.0, second_s=30.0, cpu_s=120, duration_s=7200)
"""Below the product's, so that what never ends is met within minutes."""

SLACK_S = 15.0
"""By how much a deadline may be passed on a busy machine until the loop answers."""

SEED_BYTES_MAX = 60_000

SOUND = ("-f", "lavfi", "-i", "sine=f=440:r=16000:d=1.6")
STEREO = ("-f", "lavfi", "-i", "aevalsrc='sin(2*PI*300*t)|sin(2*PI*500*t)':s=22050:d=1.6")
PICTURE = ("-f", "lavfi", "-i", "testsrc2=s=64x48:r=10:d=1.6")
H264 = ("-c:v", "libx264", "-g", "5", "-bf", "2", "-pix_fmt", "yuv420p")
AAC = ("-c:a", "aac", "-b:a", "24k")
WORDS = "1\n00:00:00,000 --> 00:00:01,000\nHello\n"

SEEDS: dict[str, tuple[str, ...]] = {
    "plain.mp4": (*SOUND, *PICTURE, *H264, *AAC),
    "start.mp4": (*STEREO, *PICTURE, *H264, *AAC, "-movflags", "+faststart"),
    "parts.mp4": (*SOUND, *PICTURE, *H264, *AAC, "-movflags", "frag_keyframe+empty_moov"),
    "hevc.mp4": (*PICTURE, "-c:v", "libx265", "-x265-params", "log-level=none:keyint=5"),
    "av1.mp4": (*PICTURE, "-c:v", "libaom-av1", "-cpu-used", "8", "-g", "5"),
    "edit.mov": ("-itsoffset", "0.4", *SOUND, *PICTURE, "-c:v", "mjpeg", "-c:a", "pcm_s16le"),
    "prores.mov": (*PICTURE, "-c:v", "prores_ks"),
    "text.mov": (*SOUND, *PICTURE, "-i", "words.srt", *H264, *AAC, "-c:s", "mov_text"),
    "alac.m4a": (*STEREO, "-c:a", "alac"),
    "old.3gp": (*PICTURE, "-s", "128x96", "-c:v", "h263"),
    "speech.3gp": (*SOUND, "-ar", "8000", "-c:a", "libopencore_amrnb"),
    "talk.mkv": (*SOUND, *PICTURE, "-i", "words.srt", *H264, "-c:a", "libopus", "-c:s", "srt"),
    "lossless.mkv": (*STEREO, *PICTURE, "-c:v", "ffv1", "-c:a", "flac"),
    "live.webm": (*SOUND, *PICTURE, "-c:v", "libvpx", "-c:a", "libvorbis", "-live", "1"),
    "vp9.webm": (*SOUND, *PICTURE, "-c:v", "libvpx-vp9", "-c:a", "libopus"),
    "cast.ts": (*SOUND, *PICTURE, *H264, *AAC),
    "cast2.ts": (*SOUND, *PICTURE, "-c:v", "mpeg2video", "-c:a", "mp2"),
    "disc.mpg": (*SOUND, *PICTURE, "-c:v", "mpeg1video", "-c:a", "mp2", "-r", "25"),
    "camera.avi": (*SOUND, *PICTURE, "-c:v", "mpeg4", "-bf", "2", "-c:a", "libmp3lame"),
    "screen.avi": (*STEREO, *PICTURE, "-c:v", "huffyuv", "-c:a", "pcm_s16le", "-t", "0.5"),
    "media.wmv": (*SOUND, *PICTURE, "-c:v", "wmv2", "-c:a", "wmav2"),
    "web.flv": (*STEREO, *PICTURE, "-c:v", "flv", "-c:a", "libmp3lame"),
    "theora.ogg": (*SOUND, *PICTURE, "-c:v", "libtheora", "-c:a", "libvorbis"),
    "voice.opus": (*SOUND, "-c:a", "libopus"),
    "song.mp3": (*STEREO, "-c:a", "libmp3lame", "-metadata", "title=Call"),
    "plain.wav": (*SOUND, "-c:a", "pcm_s16le"),
    "float.wav": (*STEREO, "-c:a", "pcm_f32le", "-t", "0.3"),
    "adpcm.wav": (*SOUND, "-c:a", "adpcm_ima_wav"),
    "plain.w64": (*SOUND, "-c:a", "pcm_mulaw"),
    "plain.flac": (*STEREO, "-c:a", "flac"),
    "plain.aac": (*SOUND, *AAC),
    "plain.aiff": (*SOUND, "-c:a", "pcm_s16be"),
    "plain.caf": (*SOUND, "-c:a", "pcm_s16le"),
    "plain.amr": (*SOUND, "-ar", "8000", "-c:a", "libopencore_amrnb"),
    "round.ac3": (*STEREO, "-ar", "48000", "-ac", "6", "-c:a", "ac3"),
    "round.eac3": (*STEREO, "-ar", "48000", "-c:a", "eac3"),
    "moving.gif": (*PICTURE, "-c:v", "gif"),
}
"""Every format of the allow-list, by the arguments that make it."""

TELLING = (0, 1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
"""Values at which sizes and counts are misread."""

SIZED = (
    *(b"moov", b"mvhd", b"trak", b"tkhd", b"edts", b"elst", b"mdia", b"mdhd", b"stbl", b"stsd"),
    *(b"stts", b"ctts", b"stsc", b"stsz", b"stco", b"co64", b"moof", b"traf", b"tfhd", b"tfdt"),
    *(b"trun", b"mdat", b"avcC", b"hvcC", b"esds", b"RIFF", b"LIST", b"hdrl", b"strf", b"idx1"),
    *(b"fmt ", b"data", b"FORM", b"COMM", b"SSND", b"desc", b"fLaC", b"OggS", b"ID3\x03"),
    *(b"\x1aE\xdf\xa3", b"\x18S\x80g", b"\x1fC\xb6u", b"\x16T\xaek", b"\xae", b"\xa3", b"\xe7"),
)
"""Boxes, chunks and EBML elements; their sizes stand before or after their names."""


DAMAGE = ("missing", "overlaps", "undecodable", "damaged", "errors", "memory", "large", "empty")
"""How the codes of remarks end that tell of something lost."""


def make_seeds(folder: Path) -> dict[str, bytes]:
    """The small recordings; those that this FFmpeg cannot make are told and left out."""
    import imageio_ffmpeg

    (folder / "words.srt").write_text(WORDS)
    made = {}
    for name, arguments in SEEDS.items():
        command = [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-nostdin", *arguments]
        exact = ("-fflags", "+bitexact", "-flags", "+bitexact", "-threads", "1")
        done = subprocess.run([*command, *exact, "-y", name], cwd=folder, capture_output=True)
        if done.returncode == 0:
            made[name] = (folder / name).read_bytes()[:SEED_BYTES_MAX]
        else:
            print(f"left out {name}: {done.stderr.decode(errors='replace').strip()[-200:]}")
    return made


def read_seeds(folder: Path) -> dict[str, bytes]:
    """The small recordings of a folder."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


class Mutator:
    """File number N of a seed: one of the recordings after one to five kinds of damage."""

    def __init__(self, seeds: dict[str, bytes], seed: int) -> None:
        self._seeds = seeds
        self._seed = seed

    def file(self, number: int) -> tuple[str, bytes]:
        rng = random.Random(f"{self._seed}:{number}")
        name = rng.choice(sorted(self._seeds))
        data = bytearray(self._seeds[name])
        for _ in range(rng.choice((1, 1, 1, 2, 3, 5))):
            damage = rng.choice(self._damages)
            damage(self, rng, data)
        return name, bytes(data)

    def _flip(self, rng: random.Random, data: bytearray) -> None:
        for _ in range(rng.choice((1, 4, 32, 256))):
            if data:
                data[_place(rng, data)] ^= 1 << rng.randrange(8)

    def _zero(self, rng: random.Random, data: bytearray) -> None:
        at, length = _stretch(rng, data)
        data[at : at + length] = bytes(min(length, len(data) - at))

    def _noise(self, rng: random.Random, data: bytearray) -> None:
        at, length = _stretch(rng, data)
        data[at : at + length] = rng.randbytes(min(length, len(data) - at))

    def _cut(self, rng: random.Random, data: bytearray) -> None:
        del data[_place(rng, data) :]

    def _drop(self, rng: random.Random, data: bytearray) -> None:
        at, length = _stretch(rng, data)
        del data[at : at + length]

    def _repeat(self, rng: random.Random, data: bytearray) -> None:
        at, length = _stretch(rng, data)
        data[at:at] = data[at : at + length] * rng.choice((1, 2, 20))
        del data[4 * SEED_BYTES_MAX :]

    def _splice(self, rng: random.Random, data: bytearray) -> None:
        other = self._seeds[rng.choice(sorted(self._seeds))]
        at = _place(rng, data)
        data[at:] = other[rng.randrange(len(other)) :]

    def _value(self, rng: random.Random, data: bytearray) -> None:
        _write(rng, data, _place(rng, data))

    def _size(self, rng: random.Random, data: bytearray) -> None:
        found = [(at, mark) for mark in SIZED if (at := data.find(mark)) >= 0]
        if found:
            at, mark = rng.choice(found)
            again = data.find(mark, rng.randrange(len(data)))
            at = again if again >= 0 else at
            _write(rng, data, rng.choice((at - 4, at + len(mark), at + len(mark) + 4, at + 12)))

    _damages: tuple[Callable[[Mutator, random.Random, bytearray], None], ...] = (
        *(_flip, _flip, _zero, _noise, _cut, _drop, _repeat, _splice),
        *(_value, _value, _size, _size, _size),
    )


def _place(rng: random.Random, data: bytearray) -> int:
    """Anywhere, as often as not within the head, where the structure is."""
    return rng.randrange(max(min(len(data), rng.choice((64, 1024, len(data), len(data)))), 1))


def _stretch(rng: random.Random, data: bytearray) -> tuple[int, int]:
    return _place(rng, data), rng.choice((1, 4, 16, 188, 512, 4096, 20_000))


def _write(rng: random.Random, data: bytearray, at: int) -> None:
    """One number of one to eight bytes, either way round."""
    width = rng.choice((1, 2, 4, 4, 8))
    value = rng.choice((rng.choice(TELLING), rng.getrandbits(8 * width), len(data), len(data) - at))
    order = rng.choice(("big", "big", "little"))
    at = max(at, 0)
    data[at : at + width] = (value % (1 << 8 * width)).to_bytes(width, order)


# --- the process, forked -----------------------------------------------------------------------


class Forked:
    """A process of the server's, as MediaChild knows one."""

    def __init__(self, server: Server, argument: str) -> None:
        input_read, input_write = os.pipe()
        output_read, output_write = os.pipe()
        self._server = server
        self.stdin = os.fdopen(input_write, "wb", buffering=0)
        self.stdout = os.fdopen(output_read, "rb", buffering=0)
        self.returncode: int | None = None
        self.pid = server.start(argument, input_read, output_write)
        os.close(input_read)
        os.close(output_write)

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._server.ended(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            self.returncode = self._server.ended(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired("the media process", timeout or 0)
        return self.returncode

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


class Server:
    """The process with the library loaded; forks one child at a time."""

    def __init__(self) -> None:
        self._said = b""
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-B", __file__, "--serve", str(theirs.fileno())],
                env=_environment(),
                cwd=ROOT,
                pass_fds=[theirs.fileno()],
            )

    def start(self, argument: str, *descriptors: int) -> int:
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))
        self._socket.settimeout(60)
        self._socket.sendmsg([argument.encode() + b"\n"], [rights])
        return int(self._line())

    def ended(self, timeout: float | None) -> int | None:
        """The status of the child, as Popen gives it; None while it runs."""
        self._socket.settimeout(timeout)
        with contextlib.suppress(TimeoutError, BlockingIOError):
            return int(self._line())
        return None

    def close(self) -> None:
        self._socket.close()
        self._process.wait(timeout=30)

    def _line(self) -> bytes:
        while b"\n" not in self._said:  # a number and a status may come at once
            part = self._socket.recv(64)
            if not part:
                raise OSError("the server is gone")
            self._said += part
        line, _, self._said = self._said.partition(b"\n")
        return line


def serve(descriptor: int) -> None:
    """The server's own loop: a request with two descriptors, a number, a status."""
    from pipeline.media import __main__ as media

    media._load()
    with socket.socket(fileno=descriptor) as asked:
        while True:
            data, rights, *_ = asked.recvmsg(1 << 16, socket.CMSG_SPACE(8))
            if not data:
                return
            given = array.array("i", rights[0][2])
            if (pid := os.fork()) == 0:
                asked.close()
                _become(list(given), data.decode())
            for one in given:
                os.close(one)
            asked.sendall(b"%d\n" % pid)
            _, status = os.waitpid(pid, 0)
            asked.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))


def _become(given: list[int], argument: str) -> None:
    """The media process from its first line on, with the pipes where Popen puts them."""
    from pipeline.media import __main__ as media

    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for number, descriptor in enumerate((*given, nothing)):
        os.dup2(descriptor, number)
    os.closerange(3, 64)
    sys.stderr = io.TextIOWrapper(io.FileIO(2, "w", closefd=False))
    status = 1
    try:
        media.main(argument)
        status = 0
    finally:
        os._exit(status)


class PreparedChild(MediaChild):
    """MediaChild over a forked process; everything after the start is the product's."""

    server: Server

    def _start(self, argument: str) -> Forked:  # type: ignore[override]
        return Forked(self.server, argument)


# --- feeding -----------------------------------------------------------------------------------


class Findings:
    """What came of the files so far."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.faults: list[str] = []
        self.examples: dict[str, int] = {}
        self.slowest = (0.0, -1)
        self.units = 0
        self.kept: set[int] = set()
        """Files with a fault, and those that the process crashed or hung on."""
        self._lock = threading.Lock()

    def add(self, number: int, outcome: str, units: int, took_s: float) -> None:
        with self._lock:
            self.outcomes[outcome] += 1
            if outcome.startswith("stopped: decoder_"):
                self.kept.add(number)
            self.examples.setdefault(outcome, number)
            self.units += units
            self.slowest = max(self.slowest, (took_s, number))

    def fault(self, number: int, what: str) -> None:
        with self._lock:
            self.faults.append(f"file {number}: {what}")
            self.kept.add(number)
            print(f"FAULT file {number}: {what}", flush=True)

    def show(self, took_s: float) -> None:
        total = sum(self.outcomes.values())
        print(f"\n{total} files, {self.units} units, {took_s:.0f} s")
        for outcome, count in self.outcomes.most_common():
            print(f"{count:7}  {outcome}  (first: {self.examples[outcome]})")
        print(f"slowest: file {self.slowest[1]}, {self.slowest[0]:.1f} s")
        print(f"{len(self.faults)} faults", flush=True)


def feed(number: int, path: Path, child: type[MediaChild], findings: Findings) -> None:
    """One file through the process; whatever is not as it must be is a fault."""
    began = last = time.monotonic()
    units, kinds = 0, []
    longest_s, lost = 0.0, False
    content = path.read_bytes()
    pid = None
    try:
        with child(path, limits=LIMITS, longest_edge_px=448) as media:
            pid = media.pid
            for event in media:
                now = time.monotonic()
                longest_s, last = max(longest_s, now - last), now
                kinds.append(type(event))
                if isinstance(event, Unit):
                    units += 1
                    check_unit(event)
                if isinstance(event, MediaEnd):
                    lost = any(remark.code.endswith(DAMAGE) for remark in event.remarks)
        outcome = "ended, and says what is lost" if lost else "ended"
        if kinds[:1] != [Probe] or kinds[-1] is not MediaEnd:
            findings.fault(number, f"events {[kind.__name__ for kind in kinds[:3]]}…")
    except RecordingRefused as refused:
        outcome = f"refused: {refused.code}"
    except MediaStopped as stopped:
        outcome = f"stopped: {stopped.code} {stopped.message.split(',')[0]}"
    except OmnaiError as error:
        outcome = "fault of ours"
        findings.fault(number, str(error))
    except (AssertionError, OSError, ValueError):
        outcome = "fault of ours"
        findings.fault(number, traceback.format_exc())
    took_s = time.monotonic() - began
    if longest_s > max(LIMITS.scan_s, LIMITS.second_s) + LIMITS.silence_s + SLACK_S:
        findings.fault(number, f"no event for {longest_s:.0f} s")
    if pid is not None and Path(f"/proc/{pid}").exists():
        findings.fault(number, f"process {pid} is left")
    if path.read_bytes() != content:
        findings.fault(number, "the file was changed")
    findings.add(number, outcome, units, took_s)


def check_unit(unit: Unit) -> None:
    """What every unit must be, whatever the file was."""
    samples = np.frombuffer(unit.pcm, "<f4")
    assert samples.size == 16_000
    assert np.isfinite(samples).all()
    assert float(np.abs(samples).max()) <= 1.0
    assert unit.real_samples + unit.filled_samples + unit.synthetic_samples == 16_000


def work(
    numbers: Iterator[int],
    mutator: Mutator,
    folder: Path,
    findings: Findings,
    keep: Callable[[int], Path | None],
) -> None:
    """Feed files of these numbers, one after another, by a server of this thread's own."""
    folder.mkdir()
    server = Server()
    child = type("Prepared", (PreparedChild,), {"server": server})
    for number in numbers:
        name, data = mutator.file(number)
        path = folder / f"{number}-{name}"
        path.write_bytes(data)
        feed(number, path, child, findings)
        path.unlink()
        left = sorted(each.name for each in folder.iterdir())
        if left:
            findings.fault(number, f"left in the folder: {left}")
        if (kept := keep(number)) is not None:
            (kept / path.name).write_bytes(data)
    server.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="number of the first file")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--only", type=int, help="feed the file of this number alone")
    parser.add_argument("--keep", type=Path, help="folder that gets it, or what went wrong")
    parser.add_argument("--for-s", type=float, help="begin no file after so many seconds")
    parser.add_argument("--record", type=Path, help="only make the recordings, in this folder")
    parser.add_argument("--recordings", type=Path, help="folder of recordings made elsewhere")
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is not None:
        serve(options.serve)
        return 0
    if options.record is not None:
        for name, content in make_seeds(options.record).items():
            (options.record / name).write_bytes(content)
        (options.record / "words.srt").unlink()
        return 0
    first, count = (options.first, options.count) if options.only is None else (options.only, 1)
    findings = Findings()
    began = time.monotonic()
    until = began + (options.for_s or float("inf"))
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        seeds = read_seeds(options.recordings) if options.recordings else make_seeds(folder)
        mutator = Mutator(seeds, options.seed)
        numbers = iter(range(first, first + count))
        lock = threading.Lock()

        def kept(number: int) -> Path | None:
            return options.keep if number in {*findings.kept, options.only} else None

        def shared() -> Iterator[int]:
            while True:
                with lock:
                    number = next(numbers, None)
                if number is None or time.monotonic() > until:
                    return
                if number > first and (number - first) % 1000 == 0:
                    findings.show(time.monotonic() - began)
                yield number

        threads = [
            threading.Thread(
                target=work, args=(shared(), mutator, folder / str(at), findings, kept)
            )
            for at in range(options.workers)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    findings.show(time.monotonic() - began)
    done = sum(findings.outcomes.values())
    return 0 if not findings.faults and done == count else 1


if __name__ == "__main__":
    sys.exit(main())
