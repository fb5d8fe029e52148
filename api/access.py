"""Who calls: a key in the header or a browser's session; what it may do; what is written down."""

from __future__ import annotations

import hmac
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import ParamSpec, TypeVar, cast

from flask import Flask, current_app, g, request

from api.errors import Refusal
from api.service import service
from pipeline.ledger import audit, keys
from pipeline.ledger.audit import Fact
from pipeline.ledger.database import Transaction
from pipeline.ledger.keys import Key, Role
from pipeline.settings import Settings

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

CSRF_HEADER = "X-CSRF-Token"
CSRF_FIELD = "csrf_token"

FETCH_S = 600.0
"""A player asks for dozens of ranges of one recording; that is one fetch."""
FETCHES_MAX = 10_000
"""Remembered at once, a few megabytes."""
RECENT = "omnai-recent-fetches"

P = ParamSpec("P")
R = TypeVar("R")


def install(app: Flask) -> None:
    """Every endpoint needs a key unless it says otherwise.

    To be installed after whatever sets `g.session_key` and `g.csrf_token` for a browser's session.
    """
    app.extensions[RECENT] = OrderedDict()
    app.before_request(_check)


def is_open(view: Callable[P, R]) -> Callable[P, R]:
    """Mark a view that needs no key; goes below the route's decorator."""
    view.is_open = True  # type: ignore[attr-defined]
    return view


def is_open_where(
    allowed: Callable[[Settings], bool],
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """The same for a view that needs no key only where the operator's settings say so."""

    def mark(view: Callable[P, R]) -> Callable[P, R]:
        view.is_open_where = allowed  # type: ignore[attr-defined]
        return view

    return mark


def checks_csrf(view: Callable[P, R]) -> Callable[P, R]:
    """Mark a view that calls `check_csrf` itself, since reading the form would read an upload."""
    view.checks_csrf = True  # type: ignore[attr-defined]
    return view


def caller() -> Key:
    """Whose key this request bears. Raises Refusal where it bears none that is valid."""
    key: Key | None = g.get("key")
    if key is None:
        key = _from_bearer()
        if key is None:
            key = cast("Key | None", g.get("session_key"))
            g.is_session = key is not None
        if key is None:
            raise Refusal("key_missing", "give a key: `Authorization: Bearer omnai_…`")
        g.key = key
    return key


def sight() -> str | None:
    """The owner whose things the caller may see; none for an admin, who sees everybody's."""
    key = caller()
    return None if key.role is Role.ADMIN else key.owner


def require_admin() -> Key:
    key = caller()
    if key.role is not Role.ADMIN:
        raise Refusal("role_refused", "this needs a key with the role admin")
    return key


def check_csrf(token: str | None) -> None:
    """For a request by cookie; a request by key passes, since no other site can send one."""
    expected: str | None = g.get("csrf_token")
    if not g.get("is_session", False):
        return
    if not expected or not token or not hmac.compare_digest(token.encode(), expected.encode()):
        raise Refusal(
            "csrf_refused",
            f"a request by cookie needs the session's token, as header {CSRF_HEADER} "
            f"or form field {CSRF_FIELD}",
        )


def is_csrf_checked() -> bool:
    """Whether the header has already said what the form would say."""
    return bool(g.get("has_csrf_header", False))


def record(
    action: str,
    subject: str,
    detail: Mapping[str, Fact] | None = None,
    *,
    within: Transaction | None = None,
) -> None:
    """Write who did what to the audit table: names and ids, never content.

    Best within the transaction that does it.
    """
    key = caller()
    if within is None:
        with service().database.transaction() as own:
            return record(action, subject, detail, within=own)
    audit.put(
        within,
        actor=key.id,
        owner=key.owner,
        action=action,
        subject=subject,
        detail=detail or {},
    )


def record_fetch(action: str, subject: str) -> None:
    """The same for what is fetched in pieces: once for a key and a thing within a while."""
    recent: OrderedDict[tuple[str, str, str], float] = current_app.extensions[RECENT]
    told, now = (caller().id, action, subject), time.monotonic()
    if now - recent.get(told, -FETCH_S) < FETCH_S:
        return
    record(action, subject)
    recent[told] = now
    recent.move_to_end(told)
    while len(recent) > FETCHES_MAX:
        recent.popitem(last=False)


def _check() -> None:
    view = current_app.view_functions.get(request.endpoint or "")
    if request.endpoint == "static" or getattr(view, "is_open", False):
        return
    allowed: Callable[[Settings], bool] | None = getattr(view, "is_open_where", None)
    if allowed is not None and allowed(service().settings):
        return
    caller()
    if request.method in SAFE_METHODS or not g.is_session:
        return
    if (token := request.headers.get(CSRF_HEADER)) is not None:
        check_csrf(token)
        g.has_csrf_header = True
    elif not getattr(view, "checks_csrf", False):
        check_csrf(request.form.get(CSRF_FIELD))


def _from_bearer() -> Key | None:
    given = request.headers.get("Authorization")
    g.is_session = False
    if given is None:
        return None
    scheme, _, secret = given.partition(" ")
    if scheme.lower() != "bearer" or not secret.strip():
        raise Refusal("key_refused", "the Authorization header has to be `Bearer omnai_…`")
    key = keys.find(service().database, secret.strip())
    if key is None:
        raise Refusal("key_refused", "no valid key: unknown, expired or revoked")
    return key
