"""Which files this process may still open, held by the kernel (Linux 5.13 and later)."""

from __future__ import annotations

import contextlib
import ctypes
import os
import stat
import struct
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from pipeline.media.kernel import call

READ_FILE, READ_DIR = 1 << 2, 1 << 3
"""LANDLOCK_ACCESS_FS_… of linux/landlock.h."""

FILE_RIGHTS = {1: (1 << 13) - 1, 2: 1 << 13, 3: 1 << 14, 5: 1 << 15}
"""What each version of the interface can refuse: writing, making, removing, executing, reading;
then linking across folders, truncating, and requests to devices."""

NETWORK_SINCE, NETWORK_RIGHTS = 4, 0b11
"""Binding and connecting TCP."""
SCOPES_SINCE, SCOPES = 6, 0b11
"""Abstract UNIX sockets and signals of processes outside."""

ASK_VERSION, RULE_PATH_BENEATH = 1, 1


def version() -> int:
    """Of the kernel's interface; 0 where it has none, or it is switched off."""
    return max(call("landlock_create_ruleset", None, 0, ASK_VERSION), 0)


def allow_reading_only(path: str | None) -> int:
    """Let this thread open `path` and the program's own code to read, and nothing else, for good.

    Threads that it starts later are held, too. Returns the interface's version, or 0 where nothing
    is held. Needs PR_SET_NO_NEW_PRIVS.
    """
    known = version()
    if not known:
        return 0
    rules = _make_rules(known)
    if rules < 0:
        return 0
    try:
        if path is not None:
            _allow(rules, path, READ_FILE, is_folder=False)
        _allow(rules, "/dev/urandom", READ_FILE, is_folder=None)
        for folder in _code_folders():
            _allow(rules, folder, READ_FILE | READ_DIR, is_folder=True)
        return known if call("landlock_restrict_self", rules, 0) == 0 else 0
    finally:
        os.close(rules)


def _make_rules(known: int) -> int:
    files = 0
    for since, rights in FILE_RIGHTS.items():
        files |= rights if known >= since else 0
    network = NETWORK_RIGHTS if known >= NETWORK_SINCE else 0
    scopes = SCOPES if known >= SCOPES_SINCE else 0
    # An older kernel refuses fields that it does not know, even empty ones, by the length.
    length = 24 if scopes else 16 if network else 8
    packed = struct.pack("<QQQ", files, network, scopes)[:length]
    return call("landlock_create_ruleset", ctypes.create_string_buffer(packed, length), length, 0)


def _allow(rules: int, path: str, rights: int, *, is_folder: bool | None) -> None:
    """A rule for what is there; a file that is missing, or no file, stays closed."""
    with contextlib.suppress(OSError):
        # Not opened to read: a pipe would wait for its writer.
        found = os.open(path, os.O_PATH | os.O_CLOEXEC)  # type: ignore[attr-defined,unused-ignore]
        try:
            mode = os.fstat(found).st_mode
            is_kind = stat.S_ISDIR(mode) if is_folder else stat.S_ISREG(mode) or is_folder is None
            if is_kind:
                rule = struct.pack("=Qi", rights, found)
                buffer = ctypes.create_string_buffer(rule, len(rule))
                call("landlock_add_rule", rules, RULE_PATH_BENEATH, buffer, 0)
        finally:
            os.close(found)


def _code_folders() -> Iterator[str]:
    """Python's library, the packages and this one: modules that are loaded on first use."""
    paths = sysconfig.get_paths()
    yield from {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    yield str(Path(__file__).resolve().parents[1])
    yield from (entry for entry in sys.path if Path(entry).name in ("site-packages", "lib-dynload"))
