"""Becomes a server that outlives its starter; run as `launcher.py RUN_FILE LOG USER COMMAND…`.

Standard library alone, so that it starts in a few milliseconds with `python -I -S`. The run file
is locked here and the lock is handed on to the server through exec: as long as the server or a
child of it lives, the file is locked, and no stale process number can be mistaken for it.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import pwd
import sys
import time

LOCK_TRIES = 50
LOCK_PAUSE_S = 0.02
ALREADY_RUNNING = 75

# Linux's numbers, from <linux/prctl.h>, <linux/securebits.h> and <linux/capability.h>.
PR_SET_SECUREBITS = 28
SECBIT_NO_SETUID_FIXUP = 1 << 2
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_RAISE = 2
CAP_DAC_OVERRIDE = 1
CAPABILITY_VERSION_3 = 0x20080522


def become(user: str) -> None:
    """Give up root for `user`, but keep root's way through folders that only root may enter.

    PostgreSQL refuses to run as root. As a plain other user it could read neither a checkout in
    root's home nor its own programs in it, and opening those folders to everybody is not ours to
    do. So the one right to pass file permissions is kept; the caller, being root, has it anyway.
    """
    account = pwd.getpwnam(user)
    libc = ctypes.CDLL(None, use_errno=True)
    # access(2), which PostgreSQL asks, heeds kept rights only with this bit set.
    _call(libc.prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0), "prctl(securebits)")
    os.setgroups([])
    os.setresgid(account.pw_gid, account.pw_gid, account.pw_gid)
    os.setresuid(account.pw_uid, account.pw_uid, account.pw_uid)
    kept = 1 << CAP_DAC_OVERRIDE
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    # Two words of 32 rights, each as effective, permitted, inheritable.
    rights = (ctypes.c_uint32 * 6)(kept, kept, kept, 0, 0, 0)
    _call(libc.capset(header, rights), "capset")
    _call(
        libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_DAC_OVERRIDE, 0, 0), "prctl(ambient)"
    )


def _call(result: int, what: str) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def lock(run_file: str) -> int:
    descriptor = os.open(run_file, os.O_RDWR | os.O_CREAT, 0o600)
    for _ in range(LOCK_TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # a server, or somebody who is asking whether there is one
            time.sleep(LOCK_PAUSE_S)
        else:
            return descriptor
    sys.exit(ALREADY_RUNNING)


def main(run_file: str, log: str, user: str, command: list[str]) -> None:
    descriptor = lock(run_file)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    if os.fork() != 0:
        os._exit(0)  # the starter sees an end and has no child to look after
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
    os.set_inheritable(descriptor, True)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.umask(0o077)
    if user:
        become(user)
    os.execv(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:])
