"""Looks at a folder again and again, and submits each finished recording once."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from omnai.client import Client
from omnai.watched import memory, submitting
from omnai.watched.entries import Settling, Stamp, found
from omnai.watched.memory import Entry, Memory
from omnai.watched.submitting import Ask, Later, Refused, Unfinished, Unreadable

PAUSE_MIN_S = 5.0
PAUSE_MAX_S = 60.0
"""Between two tries while the service, or a file, is not to be had."""


class Tell(Protocol):
    """Hears what happened to which file, in words; `job_id` where there is one."""

    def __call__(
        self, event: str, text: str, *, name: str | None = None, job_id: str | None = None
    ) -> None: ...


@dataclass
class _Pause:
    """How long to leave off after what could not be done."""

    until: float = 0.0
    tries: int = 0
    told: str | None = None

    def lengthen(self) -> None:
        self.until = time.monotonic() + min(PAUSE_MIN_S * 2**self.tries, PAUSE_MAX_S)
        self.tries = min(self.tries + 1, 10)


class FolderWatcher:
    """`look` is called now and then; it keeps nothing that a restart would miss."""

    def __init__(
        self, folder: Path, *, client: Client, ask: Ask, settle_s: float, tell: Tell
    ) -> None:
        self._folder = folder
        self._client = client
        self._ask = ask
        self._tell = tell
        self._settling = Settling(settle_s)
        self._pause = _Pause()
        self._grown: dict[str, Stamp] = {}
        """As they were when their growth was told."""
        self._unreadable: dict[str, Stamp] = {}
        """As they were when that was told."""

    def look(self) -> None:
        """Raises InputRefused for what no file can help."""
        try:
            stamps = found(self._folder)
            known = memory.load(self._folder)
        except OSError as error:
            self._wait(f"the folder cannot be read ({error.strerror})")
            return
        settled = self._settling.settled(stamps)
        self._tell_growth(stamps, known)
        if time.monotonic() < self._pause.until:
            return
        for name in settled:
            entry = known.files.get(name)
            if entry is not None and entry.stamp == stamps[name]:
                continue
            try:
                known = self._deal_with(name, stamps[name], known)
            except Unfinished:
                self._settling.restart(name)
            except Unreadable as why:
                self._settling.restart(name)
                self._tell_unreadable(name, stamps[name], str(why))
            except Later as later:
                self._wait(str(later))
                return
            except OSError as error:
                self._wait(f"the folder cannot be written to ({error.strerror})")
                return
            else:
                self._go_on()

    def _deal_with(self, name: str, stamp: Stamp, known: Memory) -> Memory:
        """What is known afterwards, which is written down too."""
        with submitting.opened(self._folder / name, stamp) as file:
            sha256 = submitting.digest_of(file, stamp)
            before = known.files.get(name)
            if before is not None and before.sha256 == sha256:
                entry = Entry(stamp=stamp, sha256=sha256, job_id=before.job_id)
                return self._keep(known, name, entry)  # touched, not changed
            same = known.job_of(sha256)
            if same is not None:
                other, job_id = same
                self._tell(
                    "repeated",
                    f"{name} has the same content as {other}, which is job {job_id}",
                    name=name,
                    job_id=job_id,
                )
                return self._keep(known, name, Entry(stamp=stamp, sha256=sha256, job_id=job_id))
            try:
                job_id = submitting.submit(
                    self._client, self._ask, file, stamp, name=name, sha256=sha256
                )
            except Refused as refused:
                entry = Entry(stamp=stamp, sha256=sha256, job_id=None)
                kept = self._keep(known, name, entry)
                self._tell("refused", f"{name} was refused: {refused}", name=name)
                return kept
        kept = self._keep(known, name, Entry(stamp=stamp, sha256=sha256, job_id=job_id))
        again = "" if before is None or before.job_id is None else f"; it was job {before.job_id}"
        self._tell("submitted", f"{name} is job {job_id}{again}", name=name, job_id=job_id)
        return kept

    def _keep(self, known: Memory, name: str, entry: Entry) -> Memory:
        kept = known.having(name, entry)
        memory.save(self._folder, kept)
        return kept

    def _tell_growth(self, stamps: dict[str, Stamp], known: Memory) -> None:
        """Once a submission, when the file is first seen to be another."""
        for name, stamp in stamps.items():
            entry = known.files.get(name)
            if entry is None or entry.job_id is None or entry.stamp == stamp:
                continue
            if self._grown.get(name) != entry.stamp and stamp.size_bytes != entry.stamp.size_bytes:
                self._grown[name] = entry.stamp
                self._tell(
                    "changed",
                    f"{name} has changed since it was submitted as job {entry.job_id}; once it is"
                    " finished again it is submitted again",
                    name=name,
                    job_id=entry.job_id,
                )

    def _tell_unreadable(self, name: str, stamp: Stamp, why: str) -> None:
        if self._unreadable.get(name) != stamp:
            self._unreadable[name] = stamp
            self._tell("waiting", f"{name}: {why}; it is tried again", name=name)

    def _wait(self, why: str) -> None:
        if self._pause.told != why:
            self._tell("waiting", f"{why}; it is tried again")
            self._pause.told = why
        self._pause.lengthen()

    def _go_on(self) -> None:
        self._pause = _Pause()
