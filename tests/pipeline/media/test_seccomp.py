"""What the filter says to a call, on both machines that it is made for."""

from __future__ import annotations

import errno
import re
import struct
from pathlib import Path

import pytest

from pipeline.media import seccomp
from pipeline.media.kernel import SYSCALLS

PID = 4711

HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}

REFUSED = {
    "x86_64": {"socket": 41, "connect": 42, "fork": 57, "execve": 59, "ptrace": 101, "unlink": 87},
    "aarch64": {"socket": 198, "connect": 203, "execve": 221, "ptrace": 117, "unlinkat": 35},
}

CALLS = [
    ("read", (), True),
    ("futex", (), True),
    ("exit_group", (), True),
    ("openat", (0, 0, 0), True),
    ("openat", (0, 0, 0o2000000), True),  # O_CLOEXEC
    ("openat", (0, 0, 1), False),
    ("openat", (0, 0, 2), False),
    ("openat", (0, 0, 0o100), False),  # O_CREAT
    ("openat", (0, 0, 0o1000), False),  # O_TRUNC
    ("mmap", (0, 4096, 3), True),
    ("mmap", (0, 4096, 5), False),
    ("mprotect", (0, 4096, 7), False),
    ("clone", (0x3D0F00,), True),  # a thread, as glibc makes it
    ("clone", (17,), False),  # a process, told of by SIGCHLD
    ("kill", (PID,), True),
    ("kill", (1,), False),
    ("kill", ((1 << 32) - 1,), False),
    ("tgkill", (PID,), True),
    ("tgkill", (PID + 1,), False),
    ("prlimit64", (0, 7, 0), True),
    ("prlimit64", (0, 7, 8), False),
    ("prlimit64", (0, 7, 1 << 40), False),
    ("prctl", (15,), True),
    ("prctl", (22,), False),
    ("fcntl", (0, 1030), True),
    ("fcntl", (0, 8), False),  # F_SETOWN
    ("ioctl", (0, 0x5412), False),  # TIOCSTI
    ("unshare", (0x10000000,), False),
]


def answer(
    machine: str, number: int, arguments: tuple[int, ...] = (), *, architecture: int | None = None
) -> int:
    """What the program returns, run as Linux runs it (linux/filter.h, linux/seccomp.h)."""
    architecture = seccomp.ARCHITECTURES[machine] if architecture is None else architecture
    data = struct.pack("<IIQ6Q", number, architecture, 0, *(*arguments, *[0] * 6)[:6])
    program = seccomp.build(machine, pid=PID)
    assert len(program) <= 4096
    at = loaded = 0
    while True:
        code, if_true, if_false, value = program[at]
        at += 1
        if code == seccomp.RETURN:
            return value
        if code == seccomp.LOAD:
            (loaded,) = struct.unpack_from("<I", data, value)
            continue
        is_so = {
            seccomp.JUMP_EQUAL: loaded == value,
            seccomp.JUMP_AT_LEAST: loaded >= value,
            seccomp.JUMP_ANY_BIT: bool(loaded & value),
        }[code]
        at += if_true if is_so else if_false


@pytest.mark.parametrize("machine", seccomp.ARCHITECTURES)
def test_every_call_gets_its_answer(machine: str) -> None:
    for name, arguments, is_allowed in CALLS:
        expected = seccomp.ALLOW if is_allowed else seccomp.REFUSE | errno.EPERM
        found = answer(machine, SYSCALLS[name][machine], arguments)
        assert found == expected, (name, arguments)
    for name, number in REFUSED[machine].items():
        assert answer(machine, number) == seccomp.REFUSE | errno.EPERM, name
    for name in ("clone3", "openat2"):
        assert answer(machine, SYSCALLS[name][machine]) == seccomp.REFUSE | errno.ENOSYS


@pytest.mark.parametrize("machine", seccomp.ARCHITECTURES)
def test_of_all_numbers_only_the_listed_are_allowed(machine: str) -> None:
    allowed = {number for number in range(600) if answer(machine, number) == seccomp.ALLOW}
    known = {found[machine] for found in SYSCALLS.values() if machine in found}
    plain = {SYSCALLS[name][machine] for name in seccomp.PLAIN if machine in SYSCALLS[name]}
    assert plain <= allowed <= known
    assert answer(machine, 599) == seccomp.REFUSE | errno.ENOSYS


@pytest.mark.parametrize("machine", seccomp.ARCHITECTURES)
def test_another_architectures_calls_end_the_process(machine: str) -> None:
    assert answer(machine, 0, architecture=0x40000003) == seccomp.KILL  # 32-bit x86
    assert answer(machine, seccomp.X32_BIT | 39) == seccomp.KILL


@pytest.mark.parametrize("machine", HEADERS)
def test_the_numbers_are_those_of_the_kernels_own_headers(machine: str) -> None:
    if not HEADERS[machine].exists():
        pytest.skip(f"{HEADERS[machine]} is not installed here")
    text = HEADERS[machine].read_text()
    told = {
        name: int(number)
        for name, number in re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", text)
    }
    told.setdefault("newfstatat", told.get("fstatat", -1))
    ours = {name: found[machine] for name, found in SYSCALLS.items() if machine in found}
    assert ours == {name: told.get(name) for name in ours}
