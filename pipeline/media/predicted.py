"""What a packet says of prediction: whether it begins anew, or no other picture is made from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from av.packet import Packet
    from av.stream import Stream


@dataclass(frozen=True, kw_only=True)
class Said:
    """Of one packet, from its headers alone."""

    is_start: bool = False
    """Pictures that are decoded after it, leading ones apart, use nothing from before it."""
    is_leading: bool = False
    """Comes right after a start, is shown before it, and may use what lies before it."""
    is_unreferenced: bool = False
    """No other picture is predicted from it."""
    may_go: bool = True
    """Nothing else that the decoder must see is in it."""


PLAIN = Said()
START = Said(is_start=True)
UNREFERENCED = Said(is_unreferenced=True)
UNREFERENCED_LEADING = Said(is_unreferenced=True, is_leading=True)
UNCLEAR = Said(may_go=False)
"""It does not add up, or changes how the stream is decoded."""


class Reader(Protocol):
    """Reads the packets of one stream in their order."""

    def read(self, packet: Packet[Stream]) -> Said:
        """What it says; UNCLEAR where in doubt."""


def reader_of(context: Any, *, is_intra_only: bool) -> Reader:
    """For a decoder that has not begun."""
    if is_intra_only:
        return _All(UNREFERENCED)
    name, extradata = context.name, context.extradata or b""
    if name == "h264":
        return _H264(extradata)
    if name == "hevc":
        return _Hevc(extradata)
    if name in ("mpeg1video", "mpeg2video"):
        return _Mpeg2()
    return _All(PLAIN)


class _All:
    """A codec whose packets are not read."""

    def __init__(self, said: Said) -> None:
        self._said = said

    def read(self, packet: Packet[Stream]) -> Said:
        return self._said


class _Nals:
    """The NAL units of a stream, and the parameter sets last seen in it."""

    def __init__(self, length_bytes: int) -> None:
        self._length_bytes = length_bytes
        """Before every unit; 0 where start codes lie between them (Annex B)."""
        self._sets: list[bytes] = []
        self._is_new_format = False

    def units(self, packet: Packet[Stream]) -> list[tuple[int, int, memoryview]] | None:
        """Begin, end and the packet's bytes of each; None where they do not add up."""
        if self._is_new_format or packet.has_sidedata("new_extradata"):
            self._is_new_format = True  # how it goes on is no longer known
            return None
        data = memoryview(packet)
        found = _split(data) if self._length_bytes == 0 else _measured(data, self._length_bytes)
        return None if found is None else [(begin, end, data) for begin, end in found]

    def are_known(self, sets: list[bytes]) -> bool:
        """Whether a packet's parameter sets are those that the last such packet had."""
        is_known = not sets or sets == self._sets
        if sets:
            self._sets = sets
        return is_known


def _measured(data: memoryview, length_bytes: int) -> list[tuple[int, int]] | None:
    found, at, end = [], 0, len(data)
    while at < end:
        begin = at + length_bytes
        at = begin + int.from_bytes(data[at:begin], "big")
        if at > end or at <= begin:
            return None
        found.append((begin, at))
    return found


def _split(data: memoryview) -> list[tuple[int, int]] | None:
    whole = bytes(data)
    begin = whole.find(b"\0\0\1")
    if begin < 0 or any(whole[:begin]):
        return None
    found = []
    while begin >= 0:
        following = whole.find(b"\0\0\1", begin + 3)
        end = len(whole) if following < 0 else following
        if end <= begin + 3:
            return None
        found.append((begin + 3, end))
        begin = following
    return found


class _H264:
    """ITU-T H.264, 7.4.1: unit types and nal_ref_idc."""

    _SLICES = frozenset({1, 2, 3, 4, 5})
    _IDR = 5
    _SETS = frozenset({7, 8, 13, 15})
    _HARMLESS = frozenset({6, 9, 12, 14, 20})
    """Supplementary information, delimiter, filler, and layers that FFmpeg passes over."""

    def __init__(self, extradata: bytes) -> None:
        is_avc = len(extradata) > 6 and extradata[0] == 1
        self._nals = _Nals((extradata[4] & 3) + 1 if is_avc else 0)

    def read(self, packet: Packet[Stream]) -> Said:
        units = self._nals.units(packet)
        if units is None:
            return UNCLEAR
        is_reference = is_idr = is_picture = False
        is_all_idr = True
        sets: list[bytes] = []
        for begin, end, data in units:
            head = data[begin]
            kind = head & 31
            if head & 128:
                return UNCLEAR
            if kind in self._SLICES:
                is_picture = True
                is_reference |= bool(head & 96)
                is_idr |= kind == self._IDR
                is_all_idr &= kind == self._IDR
            elif kind in self._SETS:
                sets.append(bytes(data[begin:end]))
            elif kind not in self._HARMLESS:
                return UNCLEAR
        if not self._nals.are_known(sets) or not is_picture:
            return UNCLEAR
        if is_idr:
            return START if is_all_idr else UNCLEAR
        return PLAIN if is_reference else UNREFERENCED


class _Hevc:
    """ITU-T H.265, 7.4.2.2: unit types, and what may refer to what.

    A "sub-layer non-reference" picture may be the reference of a higher layer, so it counts as
    unreferenced only while every sequence parameter set says that there is one layer.
    """

    _IDR = frozenset({19, 20})
    """Not CRA (21): it continues the picture order count, which what was left out would shift."""
    _PICTURES_MAX = 31
    _SUB_LAYER_UNREFERENCED = frozenset({0, 2, 4, 6, 8})
    _SETS = frozenset({32, 33, 34})
    _SPS = 33
    _HARMLESS = frozenset({35, 38, 39, 40, 62, 63})
    """Delimiter, filler, supplementary information, Dolby Vision's own."""

    def __init__(self, extradata: bytes) -> None:
        is_hvcc = len(extradata) > 22 and (extradata[0] or extradata[1] or extradata[2] > 1)
        self._nals = _Nals((extradata[21] & 3) + 1 if is_hvcc else 0)
        headers = _hvcc_units(extradata) if is_hvcc else _annexb_units(extradata)
        self._has_one_layer = bool(headers)
        for header in headers:
            self._see(header)

    def _see(self, unit: bytes) -> None:
        """Sub-layers, from a sequence parameter set (7.3.2.2)."""
        if (unit[0] >> 1) & 63 == self._SPS:
            self._has_one_layer &= len(unit) > 2 and (unit[2] >> 1) & 7 == 0

    def read(self, packet: Packet[Stream]) -> Said:
        units = self._nals.units(packet)
        if units is None:
            return UNCLEAR
        kinds: set[int] = set()
        sets: list[bytes] = []
        for begin, end, data in units:
            if end - begin < 3:
                return UNCLEAR
            kind = data[begin] >> 1
            if data[begin] & 129 or data[begin + 1] & 248:  # forbidden, or of another layer
                return UNCLEAR
            if kind <= self._PICTURES_MAX:
                kinds.add(kind)
                # What no_output_of_prior_pics_flag throws away, nothing may be missing of.
                if 16 <= kind <= 23 and data[begin + 2] & 64:
                    return UNCLEAR
            elif kind in self._SETS:
                sets.append(bytes(data[begin:end]))
                self._see(sets[-1])
            elif kind not in self._HARMLESS:
                return UNCLEAR
        if not self._nals.are_known(sets) or len(kinds) != 1:
            return UNCLEAR
        return self._said(kinds.pop())

    def _said(self, kind: int) -> Said:
        if kind in self._IDR:
            return START
        if self._has_one_layer and kind in self._SUB_LAYER_UNREFERENCED:
            return UNREFERENCED
        return PLAIN


def _hvcc_units(extradata: bytes) -> list[bytes]:
    """The units of an HEVC decoder configuration record (ISO/IEC 14496-15, 8.3.3.1)."""
    found: list[bytes] = []
    at = 23
    for _ in range(extradata[22]):
        count = int.from_bytes(extradata[at + 1 : at + 3], "big")
        at += 3
        for _ in range(count):
            length = int.from_bytes(extradata[at : at + 2], "big")
            if length < 3 or at + 2 + length > len(extradata):
                return []
            found.append(extradata[at + 2 : at + 2 + length])
            at += 2 + length
    return found


def _annexb_units(extradata: bytes) -> list[bytes]:
    spans = _split(memoryview(extradata)) or []
    return [extradata[begin:end] for begin, end in spans if end - begin >= 3]


class _Mpeg2:
    """ISO/IEC 13818-2, 6.2: start codes and picture_coding_type.

    A start needs a sequence header, which resets the quantiser matrices.
    """

    _PICTURE, _SEQUENCE, _GROUP = b"\0\0\1\0", b"\0\0\1\xb3", b"\0\0\1\xb8"
    _I, _P, _B = 1, 2, 3

    def __init__(self) -> None:
        self._is_after_start = False
        self._sequence = b""

    def read(self, packet: Packet[Stream]) -> Said:
        data = bytes(packet)
        at = data.find(self._PICTURE)
        if at < 0 or len(data) < at + 6 or data.find(self._PICTURE, at + 4) >= 0:
            return UNCLEAR
        kind = (data[at + 5] >> 3) & 7
        if kind == self._B:
            return UNREFERENCED_LEADING if self._is_after_start else UNREFERENCED
        self._is_after_start = False
        if kind == self._P:
            return UNCLEAR if self._SEQUENCE in data[:at] else PLAIN
        begin = data.find(self._SEQUENCE, 0, at)
        if kind != self._I or begin < 0:
            return UNCLEAR
        group = data.find(self._GROUP, begin, at)
        sequence = data[begin : at if group < 0 else group]
        self._is_after_start = sequence == self._sequence
        self._sequence = sequence
        return START if self._is_after_start else UNCLEAR
