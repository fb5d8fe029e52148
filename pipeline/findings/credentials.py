"""Strings shaped like credentials, masked in place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from itertools import pairwise

MASK = "[masked]"

Span = tuple[int, int]


class _Kind(Enum):
    """What kind of word stands before a value: it decides how a secret must look."""

    PASSWORD = "password"
    KEY = "key"
    PIN = "pin"


# Forms that issuers of credentials publish so that leaked ones can be found. A body is of one class
# of characters behind a boundary of the same class, so that no text is read twice.
_ISSUED = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])"
    r"|gh[pousr]_[A-Za-z0-9]{20,}"
    r"|github_pat_[A-Za-z0-9_]{20,}"
    r"|gl(?:pat|dt|rt|ptt|soat)-[A-Za-z0-9_-]{16,}"
    r"|xox[abeoprs]-[A-Za-z0-9-]{10,}"
    r"|xapp-[A-Za-z0-9-]{10,}"
    r"|[spr]k_(?:live|test)_[A-Za-z0-9]{10,}"
    r"|whsec_[A-Za-z0-9+/=]{16,}"
    r"|sk-(?=[A-Za-z0-9_-]{0,64}[0-9])[A-Za-z0-9_-]{20,}"
    r"|AIza[A-Za-z0-9_-]{30,}"
    r"|ya29\.[A-Za-z0-9_-]{20,}"
    r"|GOCSPX-[A-Za-z0-9_-]{20,}"
    r"|hf_[A-Za-z0-9]{30,}"
    r"|npm_[A-Za-z0-9]{30,}"
    r"|pypi-[A-Za-z0-9_-]{50,}"
    r"|do[opr]_v1_[a-f0-9]{40,}"
    r"|shp(?:at|ca|pa|ss)_[A-Fa-f0-9]{32,}"
    r"|sq0[a-z]{3}-[A-Za-z0-9_-]{22,}"
    r"|dapi[a-f0-9]{32,}"
    r"|hv[sb]\.[A-Za-z0-9_-]{20,}"
    r"|AGE-SECRET-KEY-1[A-Z0-9]{40,}"
    r"|key-[a-f0-9]{32}(?![A-Za-z0-9])"
    r"|SK[a-f0-9]{32}(?![A-Za-z0-9])"
    r")"
    # A JSON web token, whole or broken off; a mail key; a bot's token.
    r"|(?<![\w-])eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]+){1,4}"
    r"|(?<![\w-])eyJ[A-Za-z0-9_-]{40,}"
    r"|(?<![\w-])SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"
    r"|(?<![\w-])\d{8,10}:AA[A-Za-z0-9_-]{30,}"
)

_HEADERS = re.compile(
    r"\bauthorization[\"'`*]{0,3}\s{0,3}[:=：]\s{0,3}[\"'`]?"  # noqa: RUF001
    r"(?:(?:basic|bearer|token|digest|apikey)\s{1,3})?"
    r"(?P<header>(?=\S{0,256}[0-9=])[A-Za-z0-9._~+/=:-]{8,})"
    r"|\bbearer\s{1,3}[\"'`]?(?P<bearer>(?=\S{0,256}[0-9])[A-Za-z0-9._~+/=-]{16,})"
    r"|\b(?:set-)?cookie\s{0,3}:\s{0,3}"
    r"(?P<cookie>[^\s;=]{1,64}=[^\s;]{4,4096}(?:;\s?[^\s;=]{1,64}=[^\s;]{1,4096}){0,20})",
    re.IGNORECASE,
)

_ADDRESS = re.compile(
    r"(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{1,15}://"
    r"(?:[^\s:/@]{0,128}:(?P<password>[^\s/?#]{1,256})|(?P<user>(?=\S{0,256}[0-9])[^\s:/@?#]{16,256}))"
    r"@"
    r"|https?://hooks\.[^\s/]{1,64}/services/(?P<hook>\S{8,})"
    r"|[?&;](?:amp;)?(?:x-(?:amz|goog)-)?(?:sig|signature|credential|security-token|key|sid|auth|jwt)="
    r"(?P<query>(?=[^\s&#]{0,256}[0-9])[^\s&#\"'<>]{8,})",
    re.IGNORECASE,
)

_LINKING = (
    r"[\"'`*)\]]{0,3}"
    r"(?:\s(?:for|of|to|on)\s[^:=：.,;]{1,40}?)?"  # noqa: RUF001
    r"\s{0,3}(?P<link>[:=：＝]|=>|->|→|\b(?:is|was|are)(?:\s+(?:now|still|set\s+to))?(?=[\s:]|$):?)"  # noqa: RUF001
    r"[>*`]{0,3}\s{0,3}"
)
_WORDS = re.compile(
    r"(?:"
    r"(?P<password>pass(?:word|wd|phrase|code)s?|pwd|passwort|kennwort|contraseña|mot\s+de\s+passe"
    r"|パスワード|密码|密碼|credentials?|logins?)"
    r"|(?<![A-Za-z])(?P<pin>pin(?:\s+(?:code|number))?|otp|(?:one-time|security|2fa|login)\s+code)"
    r"|(?P<key>(?:api|access|secret|private|signing|encryption|master|account|client|auth|session"
    r"|service|shared\s?access|refresh|id|app|deploy|webhook|storage)"
    r"[\s_-]?(?:access[\s_-]?)?(?:key|token|secret)s?(?:[\s_-]?id)?"
    r"|tokens?|secrets?|session[\s_-]?id|bearer)"
    r")" + _LINKING,
    re.IGNORECASE,
)

_OPENING = {'"': '"', "'": "'", "“": "”", "‘": "’", "`": "`", "«": "»"}  # noqa: RUF001
_QUOTED_CHARS_MAX = 256
_VALUE = re.compile(r"\S+")
_JUDGED = re.compile(r"\S{1,256}")
"""A value is judged by its beginning, so that a text of key words alone stays linear."""
_TRAILING = ".,;:\"'”’`*)]}>»。，；"  # noqa: RUF001
_SAID_OF_VALUES = (
    "none null nil true false required optional unknown redacted hidden removed changed empty "
    "protected expired invalid wrong secret password"
)
_PLACEHOLDERS = frozenset(_SAID_OF_VALUES.split())
_SYMBOLS = frozenset("!@#$%^&*+=~|\\<>?_/")
_KEY_CHARS = re.compile(r"[A-Za-z0-9+/=_.~:-]+")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_DIGEST = re.compile(r"(?:sha-?\d{1,3}|md5|blake\w{1,4})[:-]", re.IGNORECASE)
_CHAIN_ADDRESS = re.compile(r"0x[0-9a-f]{40}", re.IGNORECASE)

_KEY_BEGINS = re.compile(
    r"[-–—]{2,}\s*BEGIN[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?[-–—]*", re.IGNORECASE
)
_KEY_ENDS = re.compile(r"[-–—]{2,}\s*END[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?[-–—]*", re.IGNORECASE)
_KEY_HEADER = re.compile(r"(?:Proc-Type|DEK-Info|Version|Comment|Hash|Charset)\s*:", re.IGNORECASE)
_KEY_BODY = re.compile(r"[A-Za-z0-9+/=\\]+")
_RUNS_ON = re.compile(r"[A-Za-z0-9+/=_.~-]{8,}")


class CredentialMask:
    """Masks what looks like a credential, line by line; a private key over all of its lines.

    Ordinary figures, identifiers and digests named as digests are left alone: without a form that
    an issuer publishes, a value counts only behind a word that says what it is.
    """

    def __init__(self) -> None:
        self._is_in_key = False
        self._expected: tuple[_Kind, str] | None = None
        self._runs_on = False

    def restart(self) -> None:
        """A new value begins: what the lines before led to expect is over."""
        self._is_in_key = self._runs_on = False
        self._expected = None

    def mask(self, line: str) -> tuple[str, int]:
        """The line with what was masked in it, and how many secrets began there."""
        before, counted = "", True
        if self._is_in_key:
            end = self._key_end(line)
            if end is None:
                return "", 0
            before, line, counted = "", line[end:], False
        spans = _merged(sorted(self._spans(line)))
        self._runs_on = bool(spans) and not line[spans[-1][1] :].strip()
        kept: list[str] = [before]
        position = 0
        for start, end in spans:
            kept += [line[position:start], MASK]
            position = end
        kept.append(line[position:])
        masked = "".join(kept)
        return (masked if counted else masked.lstrip()), len(spans)

    def _key_end(self, line: str) -> int | None:
        """Where in this line a private key that began before is over; none if it goes on."""
        ends = _KEY_ENDS.search(line)
        if ends is not None:
            self._is_in_key = False
            return ends.end()
        parts = line.split()
        is_body = all(_KEY_BODY.fullmatch(part) for part in parts) and (
            len(parts) == 1 or all(len(part) >= 16 for part in parts[:-1])
        )
        if is_body or _KEY_HEADER.match(line.strip()):
            return None
        self._is_in_key = False
        return 0

    def _spans(self, line: str) -> Iterator[Span]:
        yield from self._led_to(line)
        for pattern in (_ISSUED, _HEADERS, _ADDRESS):
            for found in pattern.finditer(line):
                start, end = found.span(found.lastgroup or 0)
                yield start, start + len(line[start:end].rstrip(_TRAILING))
        yield from self._named(line)
        begins = _KEY_BEGINS.search(line)
        while begins is not None:
            ends = _KEY_ENDS.search(line, begins.end())
            self._is_in_key = ends is None
            end = len(line) if ends is None else ends.end()
            yield begins.start(), end
            begins = _KEY_BEGINS.search(line, end)

    def _led_to(self, line: str) -> Iterator[Span]:
        """What the line before announced or left unfinished stands at the start of this one."""
        start = len(line) - len(line.lstrip())
        expected, self._expected = self._expected, None
        if expected is not None:
            span = _secret_at(line, start, *expected)
            if span is not None:
                yield span
        if self._runs_on:
            found = _RUNS_ON.match(line, start)
            if found is not None and _is_mixed(found[0]):
                yield found.span()

    def _named(self, line: str) -> Iterator[Span]:
        position = 0
        while True:
            found = _WORDS.search(line, position)
            if found is None:
                return
            position = found.end()
            kind = next(kind for kind in _Kind if found[kind.value] is not None)
            if not line[position:].strip():
                self._expected = (kind, found["link"])
                return
            span = _secret_at(line, position, kind, found["link"])
            if span is not None:
                yield span
                position = span[1]


def _secret_at(line: str, start: int, kind: _Kind, link: str) -> Span | None:
    closing = _OPENING.get(line[start : start + 1])
    if closing is not None:
        end = line.find(closing, start + 1, start + 1 + _QUOTED_CHARS_MAX)
        if end > 0:
            value = line[start + 1 : end]
            return (start + 1, end) if _is_secret(value, kind, link, is_quoted=True) else None
        start += 1
    found = _JUDGED.match(line, start)
    if found is None or not _is_secret(found[0].rstrip(_TRAILING), kind, link, is_quoted=False):
        return None
    whole = _VALUE.match(line, start)
    assert whole is not None
    return start, start + len(whole[0].rstrip(_TRAILING))


def _is_secret(value: str, kind: _Kind, link: str, *, is_quoted: bool) -> bool:
    if value.casefold() in _PLACEHOLDERS or not value.strip("*•.x[]<>") or value.startswith(MASK):
        return False
    is_assigned = link in ("=", "＝")  # noqa: RUF001
    if kind is _Kind.PIN:
        return value.isdigit() and 4 <= len(value) <= 12
    if kind is _Kind.PASSWORD:
        return _is_password(value, is_assigned=is_assigned, is_quoted=is_quoted)
    return _is_key(value, is_assigned=is_assigned)


def _is_password(value: str, *, is_assigned: bool, is_quoted: bool) -> bool:
    if is_assigned:
        return len(value) >= 3
    if len(value) < 4:
        return False
    if is_quoted or value.isdigit():
        return True
    has_letter = any(map(str.isalpha, value))
    return has_letter and any(character.isdigit() or character in _SYMBOLS for character in value)


def _is_key(value: str, *, is_assigned: bool) -> bool:
    if _DIGEST.match(value) or _CHAIN_ADDRESS.fullmatch(value):
        return False
    if not _KEY_CHARS.fullmatch(value):
        return False
    if is_assigned and len(value) >= 8 and _has_both(value):
        return True
    if _UUID.fullmatch(value):
        return True
    pieces = re.split(r"[-_.~:]", value)
    longest = max(pieces, key=len)
    if len(longest) >= 16 and (_has_both(longest) or _is_mixed(longest)):
        return True
    in_groups = len(pieces) >= 4 and all(len(piece) >= 4 for piece in pieces)
    return in_groups and sum(any(map(str.isdigit, piece)) for piece in pieces) >= 2


def _has_both(value: str) -> bool:
    return any(map(str.isdigit, value)) and any(map(str.isalpha, value))


def _is_mixed(value: str) -> bool:
    """Letters and digits, or letters that change their case too often for words."""
    if _has_both(value):
        return True
    changes = sum(before.islower() and after.isupper() for before, after in pairwise(value))
    return len(value) >= 16 and changes >= 4


def _merged(spans: list[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, end in spans:
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        elif end > start:
            merged.append((start, end))
    return merged
