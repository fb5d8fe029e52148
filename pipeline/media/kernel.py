"""Linux system calls that have no function in Python's own library, by name."""

from __future__ import annotations

import ctypes
import platform
import sys
from collections.abc import Mapping
from typing import Any

_X86_ONLY = {
    **{"open": 2, "stat": 4, "lstat": 6, "poll": 7, "access": 21, "select": 23, "dup2": 33},
    **{"readlink": 89, "time": 201},
}

_BOTH = {
    **{"read": (0, 63), "write": (1, 64), "close": (3, 57), "fstat": (5, 80), "lseek": (8, 62)},
    **{"mmap": (9, 222), "mprotect": (10, 226), "munmap": (11, 215), "brk": (12, 214)},
    **{"rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139)},
    **{"ioctl": (16, 29), "pread64": (17, 67), "readv": (19, 65), "writev": (20, 66)},
    **{"sched_yield": (24, 124), "mremap": (25, 216), "mincore": (27, 232), "madvise": (28, 233)},
    **{"dup": (32, 23), "nanosleep": (35, 101), "getpid": (39, 172), "clone": (56, 220)},
    **{"exit": (60, 93), "kill": (62, 129), "uname": (63, 160), "fcntl": (72, 25)},
    **{"getcwd": (79, 17), "gettimeofday": (96, 169), "getrusage": (98, 165)},
    **{"sysinfo": (99, 179), "times": (100, 153), "getuid": (102, 174), "getgid": (104, 176)},
    **{"geteuid": (107, 175), "getegid": (108, 177), "getppid": (110, 173)},
    **{"sigaltstack": (131, 132), "sched_getparam": (143, 121), "sched_getscheduler": (145, 120)},
    **{"prctl": (157, 167), "gettid": (186, 178), "futex": (202, 98)},
    **{"sched_getaffinity": (204, 123), "getdents64": (217, 61), "set_tid_address": (218, 96)},
    **{"restart_syscall": (219, 128), "fadvise64": (221, 223), "clock_gettime": (228, 113)},
    **{"clock_getres": (229, 114), "clock_nanosleep": (230, 115), "exit_group": (231, 94)},
    **{"tgkill": (234, 131), "openat": (257, 56), "newfstatat": (262, 79)},
    **{"readlinkat": (267, 78), "faccessat": (269, 48), "pselect6": (270, 72)},
    **{"ppoll": (271, 73), "unshare": (272, 97), "set_robust_list": (273, 99)},
    **{"get_robust_list": (274, 100), "dup3": (292, 24), "preadv": (295, 69)},
    **{"prlimit64": (302, 261), "getcpu": (309, 168), "seccomp": (317, 277)},
    **{"getrandom": (318, 278), "membarrier": (324, 283), "statx": (332, 291)},
    **{"rseq": (334, 293), "clone3": (435, 435), "openat2": (437, 437)},
    **{"faccessat2": (439, 439), "landlock_create_ruleset": (444, 444)},
    **{"landlock_add_rule": (445, 445), "landlock_restrict_self": (446, 446)},
}

SYSCALLS: Mapping[str, Mapping[str, int]] = {
    **{name: {"x86_64": number} for name, number in _X86_ONLY.items()},
    **{name: {"x86_64": x86, "aarch64": arm} for name, (x86, arm) in _BOTH.items()},
}
"""Number by machine (asm/unistd_64.h, asm-generic/unistd.h); the older calls are x86_64's alone."""

_PR_SET_NO_NEW_PRIVS = 38


def call(name: str, *arguments: Any) -> int:
    """Result of a system call, or -1 where it failed or this machine's number is not known."""
    number = SYSCALLS[name].get(platform.machine()) if sys.platform == "linux" else None
    if number is None:
        return -1
    # Without a type ctypes passes 32 bits, and leaves the rest of the register as it was.
    passed = [ctypes.c_long(part) if isinstance(part, int) else part for part in arguments]
    return int(ctypes.CDLL(None, use_errno=True).syscall(ctypes.c_long(number), *passed))


def refuse_new_privileges() -> bool:
    """No program that this process starts gets more rights than it has; filters ask for that."""
    return call("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
