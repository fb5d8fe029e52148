"""Whoever takes the media process over by a file gets nowhere: tried in the real process."""

from __future__ import annotations

import json
import os
import socket
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pipeline.media import landlock
from pipeline.media.kernel import call
from pipeline.media_child import MediaChild, ask_capabilities
from pipeline.settings import MediaLimits
from tests.pipeline.hostile import attempts

ACTION_AVAILABLE = 2
"""SECCOMP_GET_ACTION_AVAIL, asked of SECCOMP_RET_ERRNO: whether there are filters at all."""

needs_seccomp = pytest.mark.skipif(
    call("seccomp", ACTION_AVAILABLE, 0, (0x00050000).to_bytes(4, "little")) != 0,
    reason="this kernel, or what runs the tests, has no seccomp filters",
)
needs_landlock = pytest.mark.skipif(
    landlock.version() == 0, reason="this kernel has no Landlock, or it is switched off"
)

CHARACTERS = oct(stat.S_IFCHR)
"""The kind of /dev/null."""

FINE = {"read the recording", "own code", "thread", "signal itself"}
"""What decoding needs, and what must still work."""

BY_FILES_ALONE = {
    *("the parent's environment", "own memory as a file", "read beside", "read /etc"),
    *("list a folder", "read beside, in a thread"),
}
"""Refused by rules on files only: a filter sees no paths."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    held: dict[str, str | None]
    came_to: dict[str, str]
    status: int


class Folder:
    def __init__(self, folder: Path, port: int) -> None:
        self.recording, self.beside = folder / "recording.mp4", folder / "beside"
        self.recording.write_bytes(b"recorded")
        self.beside.write_bytes(b"somebody else's")
        self._port = port

    def attack(self, *names: str, missing: tuple[str, ...] = ()) -> Outcome:
        """What the attempts of these names come to, or all of them, in a process of their own."""
        limits = MediaLimits()

        class Hostile(MediaChild):
            _program = (
                *("tests.pipeline.hostile", str(self.beside), str(self._port)),
                *(json.dumps(names), json.dumps(missing)),
            )

        with Hostile(self.recording, limits=limits, longest_edge_px=448) as media:
            process = media._process
            assert process.stdout is not None
            said = process.stdout.read()
            status = process.wait(timeout=60)
        assert said[:1] in (b"", b"{"), said.decode(errors="replace")
        return Outcome(**(json.loads(said) if said else {"held": {}, "came_to": {}}), status=status)


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0)
        yield listening


@pytest.fixture
def folder(tmp_path: Path, server: socket.socket) -> Folder:
    return Folder(tmp_path, server.getsockname()[1])


def every_attempt() -> list[str]:
    """But those that end the process, and those that ask something else."""
    known = attempts("", Path(), 0)
    return [name for name in known if name not in ("other numbers", "descriptors")]


@needs_seccomp
@needs_landlock
def test_only_reading_the_recording_and_thinking_are_left(
    folder: Folder, server: socket.socket
) -> None:
    found = folder.attack(*every_attempt())
    assert found.held["network"] == found.held["processes"] == "seccomp"
    assert found.held["reading"] == found.held["writing"] == f"Landlock {landlock.version()}"
    assert {name for name, end in found.came_to.items() if end == "done"} == FINE
    refused = {end for name, end in found.came_to.items() if name not in FINE}
    assert refused == {"EPERM", "EACCES", "ValueError"}  # Python's own word for a refused limit
    assert sorted(path.name for path in folder.beside.parent.iterdir()) == [
        "beside",
        "recording.mp4",
    ]
    assert folder.recording.read_bytes() == b"recorded"
    with pytest.raises(BlockingIOError):
        server.accept()


@needs_seccomp
def test_calls_by_another_architectures_numbers_end_the_process(folder: Folder) -> None:
    if os.uname().machine != "x86_64":
        pytest.skip("only x86-64 has a second set of numbers")
    found = folder.attack("other numbers")
    assert found.came_to == {}
    assert found.status < 0


@needs_seccomp
def test_without_rules_on_files_only_reading_them_is_left(folder: Folder) -> None:
    found = folder.attack(*every_attempt(), missing=("landlock_create_ruleset",))
    assert found.held == {
        "network": "seccomp",
        "processes": "seccomp",
        "writing": "seccomp",
        "reading": None,
    }
    done = {name for name, end in found.came_to.items() if end == "done"}
    assert done <= FINE | BY_FILES_ALONE
    assert done > FINE


@needs_landlock
def test_without_a_filter_the_network_is_an_empty_one_of_its_own(
    folder: Folder, server: socket.socket
) -> None:
    tried = ("connect", "inet", "read beside", "write over", "write beside", "read the recording")
    found = folder.attack(*tried, missing=("seccomp",))
    if found.held["network"] is None:
        pytest.skip("neither filters nor namespaces for anybody: nothing confines the network here")
    assert found.held["network"] == "network namespace"
    assert found.held["processes"] is None
    assert found.came_to["connect"] in ("EACCES", "ENETUNREACH", "EADDRNOTAVAIL")
    assert (found.came_to["inet"], found.came_to["read the recording"]) == ("done", "done")
    assert {found.came_to[name] for name in tried[2:5]} == {"EACCES"}
    with pytest.raises(BlockingIOError):
        server.accept()


@needs_seccomp
def test_a_network_of_its_own_alone_reaches_nobody(folder: Folder, server: socket.socket) -> None:
    found = folder.attack("connect", missing=("landlock_create_ruleset", "seccomp"))
    if found.held["network"] is None:
        pytest.skip("nobody may make a network namespace here")
    assert found.came_to["connect"] in ("ENETUNREACH", "EADDRNOTAVAIL")
    with pytest.raises(BlockingIOError):
        server.accept()


@needs_seccomp
def test_where_nothing_is_left_to_confine_with_that_is_said(folder: Folder) -> None:
    missing = ("landlock_create_ruleset", "unshare", "seccomp")
    found = folder.attack("connect", "read the recording", missing=missing)
    assert set(found.held.values()) == {None}
    assert found.came_to == {"connect": "done", "read the recording": "done"}


def test_capabilities_say_what_was_tried_and_refused_here() -> None:
    told = ask_capabilities()["confinement"]
    assert set(told) == {"network", "processes", "writing", "reading"}
    for how in told.values():
        assert how is None or how in ("seccomp", "network namespace") or "Landlock" in how


def test_no_descriptor_of_ours_is_in_the_process(folder: Folder, server: socket.socket) -> None:
    """Files, pipes and connections that their owner left inheritable, as libraries do."""
    ours, theirs = socket.socketpair()  # what a connection to a database is
    reading, writing = os.pipe()
    file = os.open(folder.beside, os.O_RDONLY)
    for descriptor in (ours.fileno(), theirs.fileno(), server.fileno(), reading, writing, file):
        os.set_inheritable(descriptor, True)
    try:
        found = folder.attack("descriptors")
    finally:
        for descriptor in (reading, writing, file):
            os.close(descriptor)
        ours.close()
        theirs.close()
    kinds = json.loads(found.came_to["descriptors"])
    # Its input, two outputs that lead nowhere, and the pipe to the loop.
    assert kinds == {"0": "pipe", "1": CHARACTERS, "2": CHARACTERS, "3": "pipe"}
