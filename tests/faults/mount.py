"""Keeps a small file system in memory, in a mount namespace of its own, until its input ends.

Run as `mount.py USER BYTES`, with `python -I -S`: a process that has a second thread may
make no namespace. Reads sizes and answers each with a line.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import sys

# Linux's numbers, from <linux/sched.h>, <linux/mount.h> and <linux/prctl.h>.
CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
MS_REMOUNT = 32
PR_SET_DUMPABLE = 4

PLACE = "/tmp"
"""A folder that everybody may enter; for others it stays what it is."""

MOUNTED, DONE, REFUSED = "mounted\n", "done\n", "refused\n"


def main(owner: str, bytes_max: str) -> None:
    become(int(owner))
    user, group = os.geteuid(), os.getegid()
    call("unshare", CLONE_NEWUSER | CLONE_NEWNS)
    write("setgroups", "deny")
    write("uid_map", f"0 {user} 1")
    write("gid_map", f"0 {group} 1")
    mount(0, bytes_max)
    tell(MOUNTED)
    for line in sys.stdin:
        try:
            mount(MS_REMOUNT, line.strip())
        except OSError:  # more is on it by now
            tell(REFUSED)
        else:
            tell(DONE)


def become(owner: int) -> None:
    """The user that is to write there: the file system knows no other."""
    if owner == os.geteuid():
        return
    group = pwd.getpwuid(owner).pw_gid
    os.setgroups([])
    os.setresgid(group, group, group)
    os.setresuid(owner, owner, owner)
    call("prctl", PR_SET_DUMPABLE, 1, 0, 0, 0)  # else only root may look into /proc for it


def write(name: str, line: str) -> None:
    descriptor = os.open(f"/proc/self/{name}", os.O_WRONLY)
    os.write(descriptor, line.encode())
    os.close(descriptor)


def mount(flags: int, size_bytes: str) -> None:
    options = f"size={size_bytes},mode=700".encode()
    call("mount", b"tmpfs", PLACE.encode(), b"tmpfs", flags, options)


def tell(line: str) -> None:
    sys.stdout.write(line)
    sys.stdout.flush()


def call(name: str, *given: object) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*given) != 0:
        raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")


if __name__ == "__main__":
    main(*sys.argv[1:])
