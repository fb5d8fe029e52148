"""A link to a recording: read once, strictly, into the bytes that a connection is made with."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from urllib.parse import quote, unquote, urljoin

from pipeline.errors import InputRefused, Problem

WHERE = "/source_url"

CHARS_MAX = 8_000
"""RFC 9110, 4.1 asks every server for 8,000; signed links take two."""

HTTPS_PORT = 443

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_PARTS = re.compile(r"https://([^/?#]*)([^#]*)(#.*)?", re.IGNORECASE)
_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_HOST = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_HOST_CHARS_MAX = 253

_KEPT_IN_TARGET = "%/?:@!$&'()*+,;=-._~[]|"
"""What a path and a query may hold as it is (RFC 3986, 3.3 and 3.4), an escape's percent sign, and
three that browsers leave alone too. The rest is escaped."""

_EXAMPLE = "a link such as https://example.com/call.mp4 would be accepted"


@dataclass(frozen=True, kw_only=True)
class Link:
    """Where to ask and for what; no part of it is ever read again.

    What is printed of it is its host: path and query may hold what opens the recording to anybody.
    """

    host: str
    """Lower-case ASCII."""
    target: str = field(repr=False)
    """Path and query as they are sent, visible ASCII."""

    @property
    def text(self) -> str:
        """The whole link; only for the row that keeps it until the fetch has ended."""
        return f"https://{self.host}{self.target}"

    @property
    def filename(self) -> str:
        """The last part of its path, unescaped; untrusted text, often empty."""
        path = self.target.partition("?")[0]
        return unquote(path.rpartition("/")[2], errors="replace")


class LinkRefused(InputRefused):
    """A link was refused."""

    code = "link_refused"


def read_link(text: object) -> Link:
    """Raises LinkRefused, whose message repeats nothing of the link."""
    if not isinstance(text, str) or not text.strip():
        raise _refused("link_type", f"give a link as text; {_EXAMPLE}")
    text = text.strip(" \t\r\n")
    if len(text) > CHARS_MAX:
        raise _refused("link_too_long", f"it is longer than the {CHARS_MAX:,} that are accepted")
    _check_characters(text)
    scheme = _SCHEME.match(text)
    if scheme is None:
        raise _refused("link_malformed", f"it is no link; {_EXAMPLE}")
    if scheme[1].lower() != "https":
        raise _refused("link_scheme_refused", "only https:// is accepted")
    parts = _PARTS.fullmatch(text)
    if parts is None:
        raise _refused("link_malformed", f"it is no link; {_EXAMPLE}")
    authority, target, fragment = parts.groups()
    if fragment is not None:
        raise _refused("link_fragment_refused", "leave out the “#” and what comes after it")
    target = quote(target, safe=_KEPT_IN_TARGET)
    return Link(
        host=_host(authority),
        target=target if target.startswith("/") else f"/{target}",
    )


def follow(link: Link, location: str) -> Link:
    """Where a redirect from there leads, by the same rules. Raises LinkRefused."""
    _check_characters(location)
    try:
        joined = urljoin(link.text, location)
    except ValueError:  # with the text in it
        raise _refused("link_malformed", f"it is no link; {_EXAMPLE}") from None
    return read_link(joined)


def _check_characters(text: str) -> None:
    """Before anything reads it: some parsers drop such characters, others split at them."""
    for character in text:
        if character == "\\" or character.isspace() or unicodedata.category(character)[0] == "C":
            raise _refused(
                "link_character_refused",
                "it holds a space, a backslash, or a control or hidden character; none is accepted",
            )


def _host(authority: str) -> str:
    if "@" in authority:
        raise _refused(
            "link_credentials_refused",
            "it holds a user name or password; a link without them would be accepted",
        )
    if "[" in authority or "]" in authority:
        raise _refused("link_host_refused", "give the host's name instead of an IPv6 address")
    if not authority.isascii():
        raise _refused(
            "link_host_refused",
            "the host's name is not ASCII; its form that begins with xn-- would be accepted",
        )
    host, colon, port = authority.lower().partition(":")
    if colon and port != str(HTTPS_PORT):
        raise _refused("link_port_refused", f"only port {HTTPS_PORT} is accepted")
    if _HOST.fullmatch(host) is None or len(host) > _HOST_CHARS_MAX:
        raise _refused("link_host_refused", f"it names no host; {_EXAMPLE}")
    return host


def _refused(code: str, message: str) -> LinkRefused:
    return LinkRefused(Problem(code=code, where=WHERE, message=message))
