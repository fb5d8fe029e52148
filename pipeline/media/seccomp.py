"""A system-call filter: what decoding a file needs is allowed, everything else is refused."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys

from pipeline.media.kernel import SYSCALLS, call

Instruction = tuple[int, int, int, int]
"""Code, jump if true, jump if false, operand (`struct sock_filter`)."""

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""AUDIT_ARCH_… of linux/audit.h."""

X32_BIT = 0x40000000
"""Calls of the x32 ABI: other numbers for the same things, under the same architecture."""

LOAD, JUMP_EQUAL, JUMP_AT_LEAST, JUMP_ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
"""BPF_LD|W|ABS, BPF_JMP|JEQ|K, …|JGE|K, …|JSET|K, BPF_RET|K of linux/bpf_common.h."""

ALLOW, REFUSE, KILL = 0x7FFF0000, 0x00050000, 0x80000000
"""SECCOMP_RET_ALLOW, …_ERRNO, …_KILL_PROCESS of linux/seccomp.h."""

NUMBER_AT, ARCHITECTURE_AT, ARGUMENTS_AT = 0, 4, 16
"""Offsets in `struct seccomp_data`; both architectures are little-endian."""

SET_MODE_FILTER, FLAG_TSYNC = 1, 1
"""The filter holds every thread that the process has by now."""

NEWEST_KNOWN = 462
"""mseal, Linux 6.10. Later calls are answered as by an older kernel, which libraries can handle."""

UNKNOWN_HERE = ("clone3", "openat2")
"""Answered alike: their flags lie in memory that a filter cannot read, and glibc falls back."""

PLAIN = (
    *("read", "readv", "pread64", "preadv", "write", "writev", "lseek", "close", "dup", "dup2"),
    *("dup3", "fstat", "newfstatat", "stat", "lstat", "statx", "access", "faccessat"),
    *("faccessat2", "readlink", "readlinkat", "getcwd", "getdents64", "fadvise64", "poll"),
    *("ppoll", "select", "pselect6", "munmap", "mremap", "madvise", "mincore", "brk", "futex"),
    *("set_robust_list", "get_robust_list", "rseq", "membarrier", "set_tid_address"),
    *("sched_yield", "sched_getaffinity", "sched_getparam", "sched_getscheduler", "getcpu"),
    *("rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sigaltstack", "restart_syscall"),
    *("clock_gettime", "clock_getres", "clock_nanosleep", "nanosleep", "gettimeofday", "time"),
    *("times", "getrusage", "getpid", "getppid", "gettid", "getuid", "geteuid", "getgid"),
    *("getegid", "getrandom", "uname", "sysinfo", "exit", "exit_group"),
)
"""Reading files, memory, threads, clocks and what the process may know of itself."""

OPEN_BEYOND_READING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
PROT_EXEC = 0x4
CLONE_THREAD = 0x10000
NAMING = (15, 16, 0x53564D41)
"""PR_SET_NAME, PR_GET_NAME, PR_SET_VMA: threads and memory are given names."""
DESCRIPTOR_REQUESTS = (0x5401, 0x5450, 0x5451)
"""TCGETS (Python asks whether a file is a terminal), FIONCLEX, FIOCLEX."""
DESCRIPTOR_COMMANDS = (0, 1, 2, 3, 4, 1030)
"""F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC."""


def install() -> bool:
    """Hold this process and all its threads to the filter, for good; False where none works here.

    Needs PR_SET_NO_NEW_PRIVS. What is refused fails with EPERM.
    """
    machine = platform.machine()
    if sys.platform != "linux" or machine not in ARCHITECTURES:
        return False
    return load(build(machine, pid=os.getpid()))


def load(program: list[Instruction]) -> bool:
    """Put a program on top of those that hold this process already; False where that is refused."""
    packed = b"".join(struct.pack("<HBBI", *instruction) for instruction in program)
    code = ctypes.create_string_buffer(packed, len(packed))
    # struct sock_fprog: a length, then a pointer at the next multiple of its size.
    described = struct.pack("@HP", len(program), ctypes.addressof(code))
    done = call("seccomp", SET_MODE_FILTER, FLAG_TSYNC, ctypes.create_string_buffer(described, 16))
    return done == 0


def build(machine: str, *, pid: int) -> list[Instruction]:
    """The program for one machine and the process of this number."""
    numbers = {name: found[machine] for name, found in SYSCALLS.items() if machine in found}
    program: list[Instruction] = [
        (LOAD, 0, 0, ARCHITECTURE_AT),
        (JUMP_EQUAL, 1, 0, ARCHITECTURES[machine]),
        (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, NUMBER_AT),
        (JUMP_AT_LEAST, 0, 1, X32_BIT),
        (RETURN, 0, 0, KILL),
    ]
    for name in PLAIN:
        if name in numbers:
            program += _on(numbers[name], [(RETURN, 0, 0, ALLOW)])
    for name, argument, values in (
        ("kill", 0, (pid,)),
        ("tgkill", 0, (pid,)),
        ("prctl", 0, NAMING),
        ("ioctl", 1, DESCRIPTOR_REQUESTS),
        ("fcntl", 1, DESCRIPTOR_COMMANDS),
    ):
        program += _on(numbers[name], _if_one_of(argument, values))
    for name, argument, bits in (
        ("open", 1, OPEN_BEYOND_READING),
        ("openat", 2, OPEN_BEYOND_READING),
        ("mmap", 2, PROT_EXEC),
        ("mprotect", 2, PROT_EXEC),
    ):
        if name in numbers:
            program += _on(numbers[name], _if_no_bit(argument, bits))
    program += _on(numbers["clone"], _if_any_bit(0, CLONE_THREAD))
    program += _on(numbers["prlimit64"], _if_null(2))  # limits may be read
    for name in UNKNOWN_HERE:
        program += _on(numbers[name], [(RETURN, 0, 0, REFUSE | errno.ENOSYS)])
    return [
        *program,
        (JUMP_AT_LEAST, 0, 1, NEWEST_KNOWN + 1),
        (RETURN, 0, 0, REFUSE | errno.ENOSYS),
        (RETURN, 0, 0, REFUSE | errno.EPERM),
    ]


def _on(number: int, body: list[Instruction]) -> list[Instruction]:
    """`body`, which returns, for this call; the number stays loaded for the others."""
    return [(JUMP_EQUAL, 0, len(body), number), *body]


def _if_one_of(argument: int, values: tuple[int, ...]) -> list[Instruction]:
    """By the lower half: the kernel takes these arguments as 32 bits."""
    count = len(values)
    checks = [(JUMP_EQUAL, count - at, 0, value) for at, value in enumerate(values)]
    return [(LOAD, 0, 0, _low(argument)), *checks, *_refuse_or_allow()]


def _if_no_bit(argument: int, bits: int) -> list[Instruction]:
    return [(LOAD, 0, 0, _low(argument)), (JUMP_ANY_BIT, 0, 1, bits), *_refuse_or_allow()]


def _if_any_bit(argument: int, bits: int) -> list[Instruction]:
    return [(LOAD, 0, 0, _low(argument)), (JUMP_ANY_BIT, 1, 0, bits), *_refuse_or_allow()]


def _if_null(argument: int) -> list[Instruction]:
    low = _low(argument)
    return [
        (LOAD, 0, 0, low),
        (JUMP_EQUAL, 0, 2, 0),
        (LOAD, 0, 0, low + 4),
        (JUMP_EQUAL, 1, 0, 0),
        *_refuse_or_allow(),
    ]


def _refuse_or_allow() -> list[Instruction]:
    return [(RETURN, 0, 0, REFUSE | errno.EPERM), (RETURN, 0, 0, ALLOW)]


def _low(argument: int) -> int:
    return ARGUMENTS_AT + 8 * argument
