"""The one file of a multipart upload, as it arrives: nothing is held but the part at hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

from werkzeug.exceptions import ClientDisconnected, RequestEntityTooLarge
from werkzeug.sansio.multipart import (
    Data,
    Epilogue,
    Event,
    Field,
    File,
    MultipartDecoder,
    NeedData,
)

from api.errors import Refusal
from api.limits import FIELD_BYTES_MAX
from pipeline.errors import InputRefused, Problem

READ_BYTES = 1 << 20
FILE_FIELD = "file"
FIELDS_MAX = 10


class FileForm:
    """A form with one file; `fields` holds the small ones that came so far.

    `open` reads up to the file; `chunks` then gives its bytes once and reads to the form's end.
    """

    def __init__(self, stream: IO[bytes], boundary: bytes, *, known: frozenset[str]) -> None:
        self.fields: dict[str, str] = {}
        self.filename: str | None = None
        self._known = known
        self._stream = stream
        # Bounds the header of a part as well as what waits for its boundary.
        self._decoder = MultipartDecoder(boundary, max_form_memory_size=2 * READ_BYTES)
        self._first: Data | None = None

    def open(self) -> None:
        """Raises InputRefused where there is no file, or a field that is not known."""
        event = self._read_fields()
        if not isinstance(event, File):
            raise _refused("file_missing", f"the form has no file field “{FILE_FIELD}”")
        self.filename = event.filename

    def chunks(self) -> Iterator[bytes]:
        while True:
            event = self._next()
            if not isinstance(event, Data):
                raise _broken()
            yield event.data
            if not event.more_data:
                break
        if isinstance(self._read_fields(), File):
            raise _refused("file_repeated", "the form has more than one file; give one at a time")

    def _read_fields(self) -> Event:
        """Up to the next file or the end of the form."""
        while True:
            event = self._next()
            if isinstance(event, File):
                if event.name != FILE_FIELD:
                    raise self._unknown(event.name)
                return event
            if isinstance(event, Epilogue):
                return event
            if isinstance(event, Field):
                self._read_field(event.name)

    def _read_field(self, name: str) -> None:
        if name not in self._known or len(self.fields) >= FIELDS_MAX:
            raise self._unknown(name)
        value = b""
        while True:
            event = self._next()
            if not isinstance(event, Data):
                raise _broken()
            value += event.data
            if len(value) > FIELD_BYTES_MAX:
                raise RequestEntityTooLarge
            if not event.more_data:
                break
        self.fields[name] = value.decode(errors="replace")

    def _next(self) -> Event:
        try:
            while isinstance(event := self._decoder.next_event(), NeedData):
                self._decoder.receive_data(self._stream.read(READ_BYTES) or None)
        except (ValueError, OSError, ClientDisconnected) as error:
            raise _broken() from error
        return event

    def _unknown(self, name: str) -> InputRefused:
        shown = "".join(c if c.isprintable() else "�" for c in name[:60])
        accepted = ", ".join(sorted({FILE_FIELD, *self._known}))
        return _refused("field_unknown", f"no such field “{shown}”; accepted: {accepted}")


def _refused(code: str, message: str) -> InputRefused:
    return InputRefused(Problem(code=code, where=f"/{FILE_FIELD}", message=message))


def _broken() -> Refusal:
    return Refusal("upload_broken_off", "the form is malformed or was broken off; send it again")
