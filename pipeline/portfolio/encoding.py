"""Bytes of a portfolio file to text, without guessing an encoding that could be another."""

from __future__ import annotations

import codecs

from pipeline.errors import InputRefused, Problem


def decode(data: bytes) -> str:
    """UTF-8; UTF-16 with its byte order mark; Windows-1252 where nothing else could be meant."""
    try:
        if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return data.decode("utf-16")
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if error.encoding.startswith("utf-8") and _is_western(data):
            return data.decode("cp1252")
        raise InputRefused(
            Problem(
                code="portfolio_encoding",
                where="",
                message=(
                    f"the text's encoding cannot be told, from byte {error.start + 1} on; "
                    "accepted are UTF-8 (in a spreadsheet: save as “CSV UTF-8”), UTF-16 with a "
                    "byte order mark, and Windows-1252 where its letters leave no doubt"
                ),
            )
        ) from error


def _is_western(data: bytes) -> bool:
    """Whether every byte past ASCII is a single accented letter within a Latin word.

    Such a byte counts only where the Western, Central European and Turkish code pages agree on it;
    Cyrillic, Greek and East Asian text has such bytes side by side.
    """
    for position, byte in enumerate(data):
        if byte < 0x80:
            continue
        before, after = data[position - 1 : position], data[position + 1 : position + 2]
        if byte not in _UNDISPUTED or not (before.isalpha() or after.isalpha()):
            return False
        if before >= b"\x80" or after >= b"\x80":
            return False
    return True


def _read(byte: int, code_page: str) -> str:
    return bytes([byte]).decode(code_page, errors="replace")


_UNDISPUTED = frozenset(
    byte
    for byte in range(0xC0, 0x100)
    if _read(byte, "cp1252") == _read(byte, "cp1250") == _read(byte, "cp1254")
    and _read(byte, "cp1252").isalpha()
)
