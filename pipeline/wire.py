"""The messages between the media process and the loop: a length-prefixed header and two blobs."""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from pipeline.clock import SAMPLES_PER_UNIT
from pipeline.plain import from_plain, to_plain
from pipeline.records import FRAME_BYTES_MAX, Gap, MediaEnd, Probe, Unit
from pipeline.settings import MediaLimits

_PREFIX = struct.Struct("<III")
_HEADER_BYTES_MAX = 1024 * 1024
"""Far above the largest probe: 64 streams with their clipped details."""
_PCM_BYTES = SAMPLES_PER_UNIT * 4


@dataclass(frozen=True, kw_only=True)
class MediaRequest:
    """What the media process is asked to do; travels as its one argument."""

    path: str
    """Absolute path of one local file."""
    start_s: int
    """First source second to send."""
    longest_edge_px: int
    limits: MediaLimits
    audio_stream: int | None = None
    """Index of the sound to feed; none leaves the choice to the media process."""
    video_stream: int | None = None
    """The same of the picture."""
    is_probe_only: bool = False
    """Whether to end after the probe."""


@dataclass(frozen=True, kw_only=True)
class Pulse:
    """Still working: nothing to send yet."""


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """The recording cannot be analysed."""

    code: str
    message: str


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A fault of OmnAI's own in the media process."""

    traceback: str


Message = Probe | Unit | Gap | MediaEnd | Pulse | Refusal | Failure

_KINDS: dict[str, type[Any]] = {
    kind.__name__: kind for kind in (Probe, Gap, MediaEnd, Pulse, Refusal, Failure)
}


TIME_MS_MAX = 2**31 - 1
"""What the ledger keeps of a time: 24 days, of which a recording may span one."""
NUMBER_MAX = 2**53
"""Of bytes, packets and samples; more than any file has."""
EDGE_PX_MAX = 65_535
"""Of a JPEG (ITU-T T.81, B.2.2)."""


class WireError(ValueError):
    """The bytes are not a message of this protocol, or not one that may come now."""


class BrokenOff(WireError):
    """The bytes end before the messages do."""


class Order:
    """What may follow what: one probe, then units and gaps forward in time, then the end.

    The sender handles hostile input and is not trusted to keep it.
    """

    def __init__(self, *, start_s: int) -> None:
        self._has_probe = False
        self._is_ended = False
        self._next_second = start_s

    def take(self, message: Message) -> None:
        """Raises WireError where this message may not come now."""
        match message:
            case Probe():
                is_in_place = not self._has_probe
                self._has_probe = True
            case Unit():
                is_in_place = self._has_probe and message.second >= self._next_second
                self._next_second = message.second + 1
            case Gap():
                is_in_place = (
                    self._has_probe and 0 <= message.start_ms < message.end_ms <= TIME_MS_MAX
                )
            case MediaEnd():
                is_in_place = self._has_probe
            case Pulse() | Refusal() | Failure():
                is_in_place = True
        if self._is_ended or not is_in_place:
            raise WireError(f"a {type(message).__name__} that may not come now")
        self._is_ended = isinstance(message, MediaEnd)


def encode(message: Message) -> bytes:
    """The bytes of one message."""
    pcm, jpeg = b"", b""
    if isinstance(message, Unit):
        pcm = message.pcm
        header: dict[str, Any] = {
            "second": message.second,
            "start_ms": message.start_ms,
            "end_ms": message.end_ms,
            "real_samples": message.real_samples,
            "filled_samples": message.filled_samples,
            "synthetic_samples": message.synthetic_samples,
            "is_frame_held": message.is_frame_held,
            "decode_ms": message.decode_ms,
            "frame": None,
        }
        if message.frame is not None:
            jpeg = message.frame.jpeg
            header["frame"] = {
                "source_ms": message.frame.source_ms,
                "width_px": message.frame.width_px,
                "height_px": message.frame.height_px,
                "sha256": message.frame.sha256,
            }
    else:
        header = to_plain(message)
    text = json.dumps([type(message).__name__, header], allow_nan=False).encode()
    return _PREFIX.pack(len(text), len(pcm), len(jpeg)) + text + pcm + jpeg


def length(begun: bytes | bytearray) -> int:
    """Of the message that begins so, in bytes; of its first part, while not even that is whole.

    Raises WireError where it is longer than a message may be.
    """
    if len(begun) < _PREFIX.size:
        return _PREFIX.size
    return _PREFIX.size + sum(_lengths(begun))


def decode(read: Callable[[int], bytes]) -> Message | None:
    """The next message; `read(n)` gives exactly n bytes, or fewer at the end of the stream.

    None at a clean end. Raises WireError where the bytes break off or make no sense; the sender
    handles hostile input and is not trusted.
    """
    prefix = read(_PREFIX.size)
    if not prefix:
        return None
    if len(prefix) < _PREFIX.size:
        raise BrokenOff("the stream breaks off inside a message")
    lengths = _lengths(prefix)
    parts = [read(wanted) if wanted else b"" for wanted in lengths]
    if [len(part) for part in parts] != list(lengths):
        raise BrokenOff("the stream breaks off inside a message")
    header, pcm, jpeg = parts
    try:
        name, body = json.loads(
            header, parse_constant=_refuse_constant, parse_float=_finite, parse_int=_number
        )
        if name == Unit.__name__:
            return _unit(body, pcm, jpeg)
        if pcm or jpeg:
            raise ValueError("samples or a picture outside a unit")
        return from_plain(_KINDS[name], body)  # type: ignore[no-any-return]
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise WireError(f"a message that makes no sense: {error}") from error


def _lengths(prefix: bytes | bytearray) -> tuple[int, int, int]:
    """Of the header and both blobs. Raises WireError."""
    header_bytes, pcm_bytes, jpeg_bytes = _PREFIX.unpack_from(prefix)
    if (
        header_bytes > _HEADER_BYTES_MAX
        or pcm_bytes not in (0, _PCM_BYTES)
        or jpeg_bytes > FRAME_BYTES_MAX
    ):
        raise WireError(f"a message of {header_bytes}+{pcm_bytes}+{jpeg_bytes} bytes")
    return header_bytes, pcm_bytes, jpeg_bytes


def _unit(body: Any, pcm: bytes, jpeg: bytes) -> Unit:
    if not isinstance(body, dict):
        raise ValueError("a unit without a body")
    described = body.get("frame")
    if described is not None:
        described = {**described, "jpeg": jpeg}
    elif jpeg:
        raise ValueError("a picture without a description")
    unit = from_plain(Unit, {**body, "pcm": pcm, "frame": described})
    counts = (unit.real_samples, unit.filled_samples, unit.synthetic_samples)
    if len(pcm) != _PCM_BYTES or min(counts) < 0 or sum(counts) != SAMPLES_PER_UNIT:
        raise ValueError("a unit whose samples do not add up")
    end_ms = unit.start_ms + 1000
    if unit.second < 0 or unit.start_ms != unit.second * 1000 or end_ms > TIME_MS_MAX:
        raise ValueError("a unit that is not at its second")
    if not unit.start_ms <= unit.end_ms <= end_ms:
        raise ValueError("a unit that is longer than a second")
    if unit.frame is not None and abs(unit.frame.source_ms) > TIME_MS_MAX:
        raise ValueError("a picture from far away")
    if unit.frame is not None and not (
        0 < unit.frame.width_px <= EDGE_PX_MAX and 0 < unit.frame.height_px <= EDGE_PX_MAX
    ):
        raise ValueError("a picture of no size, or too large a one")
    # The digest becomes a name in storage that others trust.
    if unit.frame is not None and hashlib.sha256(jpeg).hexdigest() != unit.frame.sha256:
        raise ValueError("a picture that is not the one named")
    return unit


def _number(text: str) -> int:
    if len(text) > 20 or abs(int(text)) > NUMBER_MAX:
        raise ValueError("a number larger than any of a recording")
    return int(text)


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("a number that is not finite")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")
