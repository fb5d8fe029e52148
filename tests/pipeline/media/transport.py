"""Changes time stamps inside an MPEG transport stream (ISO/IEC 13818-1, 2.4.3.7)."""

from __future__ import annotations

PACKET = 188


def with_stray_time(stream: bytes, *, at: int, by_s: float) -> bytes:
    """A copy where the `at`-th dated PES packet of each elementary stream is `by_s` off."""
    out = bytearray(stream)
    seen: dict[int, int] = {}
    for offset in range(0, len(out), PACKET):
        packet = out[offset : offset + PACKET]
        pid = int.from_bytes(packet[1:3], "big") & 0x1FFF
        if not packet[1] & 0x40:
            continue
        start = 4 + (1 + packet[4] if packet[3] & 0x20 else 0)
        if packet[start : start + 3] != b"\0\0\1" or packet[start + 3] < 0xC0:
            continue
        seen[pid] = seen.get(pid, -1) + 1
        if seen[pid] != at:
            continue
        for flag, place in ((0x80, start + 9), (0x40, start + 14)):
            if packet[start + 7] & flag:
                stamp = bytes(packet[place : place + 5])
                moved = (_read(stamp) + round(by_s * 90_000)) % 2**33
                out[offset + place : offset + place + 5] = _write(stamp[0], moved)
    return bytes(out)


def _read(stamp: bytes) -> int:
    high = (stamp[0] >> 1) & 7
    middle = int.from_bytes(stamp[1:3], "big") >> 1
    low = int.from_bytes(stamp[3:5], "big") >> 1
    return high << 30 | middle << 15 | low


def _write(head: int, ticks: int) -> bytes:
    return (
        bytes([(head & 0xF0) | (ticks >> 30 & 7) << 1 | 1])
        + ((ticks >> 15 & 0x7FFF) << 1 | 1).to_bytes(2, "big")
        + ((ticks & 0x7FFF) << 1 | 1).to_bytes(2, "big")
    )
