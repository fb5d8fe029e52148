"""What packets say of prediction, by the standards' own bytes, and what is left out for it."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import av
import pytest

from pipeline.media.needed import HELD_PACKETS_MAX, Marked, NeededPackets
from pipeline.media.predicted import (
    PLAIN,
    START,
    UNCLEAR,
    UNREFERENCED,
    UNREFERENCED_LEADING,
    Said,
    reader_of,
)

AVCC = b"\x01d\x00\x1f\xff\xe1\x00"
"""Four bytes of length before every unit."""

IDR, REFERENCE, DISPOSABLE, SPS, SEI = b"\x65ab", b"\x41ab", b"\x01ab", b"\x67ab", b"\x06ab"


def framed(*units: bytes) -> bytes:
    return b"".join(len(unit).to_bytes(4, "big") + unit for unit in units)


def coded(*units: bytes) -> bytes:
    return b"".join(b"\0\0\0\1" + unit for unit in units)


def said(name: str, extradata: bytes, *packets: bytes) -> list[Said]:
    reader = reader_of(SimpleNamespace(name=name, extradata=extradata), is_intra_only=False)
    return [reader.read(av.Packet(data)) for data in packets]


@pytest.mark.parametrize(("extradata", "pack"), [(AVCC, framed), (b"", coded)])
def test_h264_by_unit_type_and_reference_bits(extradata: bytes, pack: Any) -> None:
    found = said(
        "h264",
        extradata,
        pack(SEI, IDR, IDR),
        pack(REFERENCE),
        pack(DISPOSABLE, DISPOSABLE),
        pack(DISPOSABLE, REFERENCE),
    )
    assert found == [START, PLAIN, UNREFERENCED, PLAIN]


@pytest.mark.parametrize(
    "packet",
    [
        framed(IDR)[:-1],
        framed(b"\xe5ab"),
        framed(SEI),
        framed(b"\x0aab", REFERENCE),
        framed(IDR, REFERENCE),
        framed(b"", REFERENCE),
    ],
    ids=["cut", "forbidden bit", "no picture", "end of sequence", "two kinds", "nothing"],
)
def test_h264_that_does_not_add_up_is_decoded(packet: bytes) -> None:
    assert said("h264", AVCC, packet) == [UNCLEAR]


def test_a_start_with_new_parameters_is_none() -> None:
    other = SPS + b"c"
    packets = [coded(SPS, IDR), coded(SPS, IDR), coded(other, IDR), coded(other, IDR)]
    assert said("h264", b"", *packets) == [UNCLEAR, START, UNCLEAR, START]


def test_nothing_is_read_after_a_new_format() -> None:
    reader = reader_of(SimpleNamespace(name="h264", extradata=AVCC), is_intra_only=False)
    packet = av.Packet(framed(IDR))
    assert reader.read(packet) is START
    side = SimpleNamespace(has_sidedata=lambda kind: kind == "new_extradata")
    assert reader.read(side) is UNCLEAR  # type: ignore[arg-type]
    assert reader.read(packet) is UNCLEAR


def hevc(kind: int, *, layer: int = 0, payload: bytes = b"\x80a") -> bytes:
    return bytes([kind << 1, layer << 3 | 1]) + payload


def hevc_sps(sub_layers: int) -> bytes:
    return hevc(33, payload=bytes([(sub_layers - 1) << 1, 0]))


def test_hevc_by_unit_type() -> None:
    """19 and 20 are IDR, 21 is CRA, which goes on counting; even ones below 16 are disposable."""
    extradata = coded(hevc_sps(1))
    kinds = [19, 20, 21, 1, 0, 9, 8]
    expected = [START, START, PLAIN, PLAIN, UNREFERENCED, PLAIN, UNREFERENCED]
    assert said("hevc", extradata, *(coded(hevc(kind)) for kind in kinds)) == expected


def test_hevc_with_more_layers_has_no_disposable_pictures() -> None:
    assert said("hevc", coded(hevc_sps(2)), coded(hevc(0))) == [PLAIN]
    assert said("hevc", b"", coded(hevc(0))) == [PLAIN]
    known = [coded(hevc(0)), coded(hevc_sps(3), hevc(1)), coded(hevc(0))]
    assert said("hevc", coded(hevc_sps(1)), *known) == [UNREFERENCED, UNCLEAR, PLAIN]


def test_hevc_that_throws_pictures_away_or_has_another_view_is_decoded() -> None:
    thrown = coded(hevc(19, payload=b"\xc0a"))
    assert said("hevc", coded(hevc_sps(1)), thrown, coded(hevc(1, layer=1))) == [UNCLEAR, UNCLEAR]


def mpeg2(kind: int, *, sequence: bytes | None = None) -> bytes:
    head = b"" if sequence is None else b"\0\0\1\xb3" + sequence + b"\0\0\1\xb8grp"
    return head + b"\0\0\1\0" + bytes([0, kind << 3, 0])


def test_mpeg2_by_coding_type() -> None:
    i, p, b = 1, 2, 3
    packets = [
        mpeg2(i, sequence=b"one"),
        mpeg2(b),
        mpeg2(p),
        mpeg2(b),
        mpeg2(i, sequence=b"one"),
        mpeg2(b),
        mpeg2(p),
        mpeg2(b),
        mpeg2(i),
        mpeg2(i, sequence=b"two"),
    ]
    assert said("mpeg2video", b"", *packets) == [
        *(UNCLEAR, UNREFERENCED, PLAIN, UNREFERENCED),
        *(START, UNREFERENCED_LEADING, PLAIN, UNREFERENCED),
        *(UNCLEAR, UNCLEAR),
    ]


# --- what is left out


SCRIPT = {
    "S": START,
    "p": PLAIN,
    "b": UNREFERENCED,
    "l": UNREFERENCED_LEADING,
    "?": UNCLEAR,
}


def chosen(letters: str, needed: Iterable[int], *, stop_after: int | None = None) -> str:
    """Which packets are decoded, by their letters, an unneeded one as a dot."""
    packets = [av.Packet(letter.encode()) for letter in letters]
    reader = SimpleNamespace(read=lambda packet: SCRIPT[bytes(packet).decode()])
    chooser = NeededPackets(reader)  # type: ignore[arg-type]

    def marks() -> Iterable[Marked]:
        for number, packet in enumerate(packets):
            if number == stop_after:
                chooser.keep_all()
            yield Marked(packet=packet, is_needed=number in set(needed))

    kept = {id(packet) for packet in chooser.choose(marks())}
    return "".join(
        letter if id(packet) in kept else "."
        for letter, packet in zip(letters, packets, strict=True)
    )


@pytest.mark.parametrize(
    ("letters", "needed", "expected"),
    [
        ("SppppSpp", [0, 2, 5], "Spp..S.."),
        ("SppppSpp", [0, 2, 7], "Spp..Spp"),
        ("SpbpbSpp", [0, 3, 5], "Sp.p.S.."),
        ("Sp?ppSpp", [0, 5], "Sp?..S.."),
        ("SpppSllpp", [0, 4], "S...S...."),
        ("SpppSllpp", [0, 6], "SpppS.l.."),
        ("SpppS?pp", [0, 4], "SpppS?.."),
        ("SpSpSp", [0], "S....."),
    ],
)
def test_only_what_a_needed_picture_is_made_from_is_decoded(
    letters: str, needed: list[int], expected: str
) -> None:
    assert chosen(letters, needed) == expected


def test_after_damage_nothing_more_is_left_out() -> None:
    assert chosen("SpppSppS", [0, 4], stop_after=6) == "S...SppS"
    assert chosen("SpbpSpbp", [0], stop_after=3) == "Sp.pSpbp"


def test_what_is_held_is_bounded() -> None:
    letters = "S" + "p" * (HELD_PACKETS_MAX + 10) + "S"
    found = chosen(letters, [0])
    assert found == "S" + "p" * 10 + "." * (HELD_PACKETS_MAX + 1)
