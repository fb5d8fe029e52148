"""What a tus client says in headers, read strictly: none of it is trusted."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping

from flask import request

from api.errors import Refusal
from api.parts import CHECKSUMS, Checksum
from pipeline.errors import InputRefused, Problem, UploadTooLarge

VERSION = "1.0.0"
VERSION_HEADER = "Tus-Resumable"
LENGTH_HEADER = "Upload-Length"
OFFSET_HEADER = "Upload-Offset"
METADATA_HEADER = "Upload-Metadata"
CHECKSUM_HEADER = "Upload-Checksum"
METHOD_HEADER = "X-HTTP-Method-Override"

PART_TYPE = "application/offset+octet-stream"

METADATA_CHARS_MAX = 4_000
"""Kept and told again; a name of a file needs a thousand at most."""

NAMES = ("filename", "name")
"""What clients call the file's name, the usual one first."""

_NUMBER = re.compile("[0-9]{1,18}")
_PAIR = re.compile(r"(?P<key>[\x21-\x2b\x2d-\x7e]+)(?: (?P<value>[A-Za-z0-9+/]*={0,2}))?")


def check_version() -> None:
    """Before anything is done: another version's client may mean something else."""
    if request.headers.get(VERSION_HEADER) != VERSION:
        raise Refusal("tus_version_refused", f"give the header {VERSION_HEADER}: {VERSION}")


def read_length(bytes_max: int) -> int:
    """The whole file's. Raises UploadTooLarge, InputRefused."""
    length_bytes = _read_number(LENGTH_HEADER)
    if length_bytes > bytes_max:
        raise UploadTooLarge(bytes_max=bytes_max)
    if length_bytes == 0:
        raise _refused("upload_empty", LENGTH_HEADER, "an empty file is no recording")
    return length_bytes


def read_offset() -> int:
    return _read_number(OFFSET_HEADER)


def read_metadata() -> tuple[str | None, Mapping[str, str]]:
    """As it came, and what it says by name."""
    given = request.headers.get(METADATA_HEADER)
    if not given:
        return None, {}
    if len(given) > METADATA_CHARS_MAX:
        message = f"give at most {METADATA_CHARS_MAX} characters"
        raise _refused("upload_metadata_malformed", METADATA_HEADER, message)
    told: dict[str, str] = {}
    for pair in given.split(","):
        found = _PAIR.fullmatch(pair.strip(" "))
        if found is None or found["key"] in told:
            message = "give pairs of a name and its value in Base64, with commas between them"
            raise _refused("upload_metadata_malformed", METADATA_HEADER, message)
        value = _from_base64(found["value"] or "", METADATA_HEADER, "upload_metadata_malformed")
        told[found["key"]] = value.decode("utf-8", "replace")
    return given, told


def read_checksum() -> Checksum | None:
    given = request.headers.get(CHECKSUM_HEADER)
    if given is None:
        return None
    algorithm, _, digest = given.partition(" ")
    if algorithm not in CHECKSUMS:
        accepted = ", ".join(CHECKSUMS)
        raise Refusal("checksum_algorithm_refused", f"no such checksum; accepted: {accepted}")
    return Checksum(
        algorithm=algorithm,
        digest=_from_base64(digest, CHECKSUM_HEADER, "upload_checksum_malformed"),
    )


def has_body() -> bool:
    return bool(request.content_length) or "Transfer-Encoding" in request.headers


def check_part_type() -> None:
    if request.mimetype != PART_TYPE:
        raise Refusal("media_type_refused", f"give the part as {PART_TYPE}")


def _read_number(name: str) -> int:
    given = request.headers.get(name, "")
    if _NUMBER.fullmatch(given) is None:
        raise _refused("upload_header_malformed", name, "give a whole number of bytes")
    return int(given)


def _from_base64(text: str, header: str, code: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise _refused(code, header, "not Base64") from None


def _refused(code: str, where: str, message: str) -> InputRefused:
    return InputRefused(Problem(code=code, where=where, message=message))
