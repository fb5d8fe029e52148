"""The media process with other code in the decoder's place: what a file that took it over could do.

Run as a program with a file beside, a port, the attempts' names, the system calls that the kernel
shall not have, and the process's one argument; answers how it is confined and what each attempt
came to: what it found, "done", or the name of the error.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import mmap
import os
import resource
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pipeline.media.__main__ as media
from pipeline.media import seccomp
from pipeline.media.confine import Confinement
from pipeline.media.kernel import SYSCALLS, refuse_new_privileges

LIBC = ctypes.CDLL(None, use_errno=True)
X86 = os.uname().machine == "x86_64"


def raw(x86: int, arm: int, *arguments: Any) -> None:
    if LIBC.syscall(x86 if X86 else arm, *arguments) < 0:
        code = ctypes.get_errno()
        raise OSError(code, errno.errorcode[code])


def fork() -> None:
    if (pid := os.fork()) == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def connect(port: int) -> None:
    with socket.socket() as calling:
        calling.settimeout(5)
        calling.connect(("127.0.0.1", port))


def remote_read(pid: int) -> None:
    buffer = ctypes.create_string_buffer(8)
    local = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 8)
    remote = (ctypes.c_void_p * 2)(id(buffer), 8)
    raw(310, 270, pid, local, 1, remote, 1, 0)


def make_code() -> None:
    mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC).close()


def into_code() -> None:
    page = mmap.mmap(-1, 4096)
    at = ctypes.addressof(ctypes.c_char.from_buffer(page))
    raw(10, 226, ctypes.c_void_p(at), ctypes.c_long(4096), 5)


def raise_limits() -> None:
    for which in (resource.RLIMIT_AS, resource.RLIMIT_FSIZE, resource.RLIMIT_CPU):
        resource.setrlimit(which, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def in_thread(attempt: Callable[[], Any]) -> None:
    caught: list[BaseException] = []

    def run() -> None:
        try:
            attempt()
        except OSError as error:
            caught.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if caught:
        raise caught[0]


def descriptors() -> str:
    """The kinds of what is open, by number."""
    kinds = {}
    for number in range(64):
        with contextlib.suppress(OSError):
            mode = os.fstat(number).st_mode
            kinds[number] = "pipe" if stat.S_ISFIFO(mode) else oct(stat.S_IFMT(mode))
    return json.dumps(kinds)


def calls_of_other_numbers() -> None:
    """A call by the numbers of 32-bit programs ends the process; there is no way back."""
    raw(0x40000000 | 39, 0x40000000 | 39)


def attempts(path: str, beside: Path, port: int) -> dict[str, Callable[[], Any]]:
    parent = os.getppid()
    return {
        "inet": lambda: socket.socket(socket.AF_INET).close(),
        "inet6": lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).close(),
        "unix": lambda: socket.socket(socket.AF_UNIX).close(),
        "netlink": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW).close(),
        "pair": lambda: socket.socketpair(),
        "connect": lambda: connect(port),
        "connect a descriptor": lambda: raw(42, 203, 0, None, 0),
        "send to": lambda: raw(44, 206, 0, None, 0, 0, None, 0),
        "rings": lambda: raw(425, 425, 8, ctypes.create_string_buffer(256)),
        "fork": fork,
        "program": lambda: subprocess.run(["/bin/true"], check=True),
        "replace": lambda: os.execv(sys.executable, [sys.executable, "-c", ""]),
        "execveat": lambda: raw(322, 281, -100, b"/bin/true", None, None, 0),
        "signal the parent": lambda: os.kill(parent, 0),
        "signal everybody": lambda: os.kill(-1, 0),
        "trace the parent": lambda: raw(101, 117, 0x4206, parent, 0, 0),
        "read the parent": lambda: remote_read(parent),
        "take the parent's descriptor": lambda: raw(434, 434, parent, 0),
        "the parent's environment": lambda: Path(f"/proc/{parent}/environ").read_bytes(),
        "own memory as a file": lambda: Path("/proc/self/mem").open("rb").close(),
        "write beside": lambda: (beside.parent / "new").write_text("x"),
        "write over": lambda: Path(path).open("r+b").close(),
        "append": lambda: Path(path).open("ab").close(),
        "truncate": lambda: os.truncate(path, 0),
        "truncate by opening": lambda: os.open(path, os.O_RDONLY | os.O_TRUNC),
        "nameless file": lambda: os.open(str(beside.parent), os.O_TMPFILE | os.O_RDWR),
        "memory file": lambda: os.close(os.memfd_create("x")),
        "remove": Path(path).unlink,
        "rename": lambda: Path(path).rename(beside),
        "folder": lambda: (beside.parent / "folder").mkdir(),
        "link": lambda: (beside.parent / "link").symlink_to("/etc/passwd"),
        "mode": lambda: Path(path).chmod(0o777),
        "read beside": lambda: beside.read_bytes(),
        "read /etc": lambda: Path("/etc/passwd").read_bytes(),
        "list a folder": lambda: len(list(beside.parent.iterdir())),
        "read beside, in a thread": lambda: in_thread(beside.read_bytes),
        "socket, in a thread": lambda: in_thread(socket.socket),
        "writable code": make_code,
        "data into code": into_code,
        "raise the limits": raise_limits,
        "another user": lambda: os.setuid(65534),
        "own namespace": lambda: raw(SYSCALLS["unshare"]["x86_64"], 97, 0x10000000),
        "mount": lambda: raw(165, 40, b"none", b"/mnt", b"tmpfs", 0, None),
        "other numbers": calls_of_other_numbers,
        "read the recording": lambda: Path(path).read_bytes(),
        "own code": lambda: Path(media.__file__).read_bytes(),
        "thread": lambda: in_thread(lambda: None),
        "descriptors": descriptors,
        "signal itself": lambda: os.kill(os.getpid(), 0),
    }


def main() -> None:
    """Confined as the real process is, by its own main; then the attempts."""
    beside, port, names, missing, argument = sys.argv[1:]
    load, confine = media._load, media.confine
    held: list[Confinement] = []
    if json.loads(missing):
        lack(json.loads(missing))

    def confine_too(path: str | None) -> Confinement:
        held.append(confine(path))
        return held[0]

    def serve(request: Any, pipe: Any) -> None:
        known = attempts(request.path, Path(beside), int(port))
        came_to = {name: outcome(known[name]) for name in json.loads(names)}
        found = {"held": asdict(held[0]), "came_to": came_to}
        os.write(pipe._descriptor, json.dumps(found).encode())

    def load_too() -> Callable[..., None]:
        load()
        return serve

    media._load = load_too  # type: ignore[assignment]
    media.confine = confine_too
    media.main(argument)
    os._exit(0)


def lack(names: list[str]) -> None:
    """From now on these calls are answered as by a kernel without them."""
    body = [(seccomp.RETURN, 0, 0, seccomp.REFUSE | errno.ENOSYS)]
    machine = os.uname().machine
    program = [(seccomp.LOAD, 0, 0, seccomp.NUMBER_AT)]
    for name in names:
        program += seccomp._on(SYSCALLS[name][machine], body)
    assert refuse_new_privileges()
    assert seccomp.load([*program, (seccomp.RETURN, 0, 0, seccomp.ALLOW)])


def outcome(attempt: Callable[[], Any]) -> str:
    try:
        found = attempt()
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, "?")
    except (ValueError, PermissionError) as error:
        return type(error).__name__
    return found if isinstance(found, str) else "done"


if __name__ == "__main__":
    main()
