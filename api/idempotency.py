"""A repeated request with an Idempotency-Key gets the first answer and does nothing."""

from __future__ import annotations

import re
from collections.abc import Callable

from flask import Response, request

from api.access import caller
from api.limits import IDEMPOTENCY_KEY_CHARS_MAX
from api.service import service
from pipeline.errors import InputRefused, Problem
from pipeline.ledger import idempotency
from pipeline.ledger.database import Transaction
from pipeline.ledger.idempotency import Fresh, Stored

HEADER = "Idempotency-Key"

REPLAYED_HEADER = "Idempotency-Replayed"

_KEY = re.compile(rf"[\x21-\x7e]{{1,{IDEMPOTENCY_KEY_CHARS_MAX}}}")

_KEPT_HEADERS = ("Content-Type", "Location")


def given_key() -> str | None:
    """Raises InputRefused for a key of another form."""
    key = request.headers.get(HEADER)
    if key is not None and _KEY.fullmatch(key) is None:
        raise InputRefused(
            Problem(
                code="idempotency_key_malformed",
                where=HEADER,
                message=f"give 1 to {IDEMPOTENCY_KEY_CHARS_MAX} visible ASCII characters",
            )
        )
    return key


class Outcome:
    """What the first request answers: said, and kept, in the transaction that does the work."""

    def __init__(self, fresh: Fresh | None) -> None:
        self._fresh = fresh
        self._answer: Response | None = None

    def settle(self, within: Transaction, answer: Response) -> None:
        """Raises IdempotencyInFlight where the request took so long that another took over."""
        if self._fresh is not None:
            idempotency.keep(within, self._fresh, _kept(answer))
        self._answer = answer

    @property
    def answer(self) -> Response:
        if self._answer is None:
            raise RuntimeError("the work was done without settling its answer")
        return self._answer


def once(
    route: str,
    payload_sha256: str,
    act: Callable[[Outcome], object],
    *,
    unneeded: Callable[[], None] = lambda: None,
) -> Response:
    """What `act` settles, or what was settled first; `unneeded` runs where it is not called.

    A refusal frees the key, since nothing was done under it. What fails after the answer was
    settled frees nothing: a retry gets that answer.
    """
    key = given_key()
    if key is None:
        outcome = Outcome(None)
        act(outcome)
        return outcome.answer
    owner, database = caller().owner, service().database
    try:
        begun = idempotency.begin(
            database, owner=owner, key=key, route=route, payload_sha256=payload_sha256
        )
    except BaseException:
        unneeded()
        raise
    if isinstance(begun, Stored):
        unneeded()
        again = Response(begun.body, status=begun.status, headers=dict(begun.headers))
        again.headers[REPLAYED_HEADER] = "true"
        return again
    outcome = Outcome(begun)
    try:
        act(outcome)
    except BaseException:
        idempotency.abandon(database, begun)
        raise
    return outcome.answer


def _kept(answer: Response) -> Stored:
    return Stored(
        status=answer.status_code,
        body=answer.get_data(),
        headers={name: answer.headers[name] for name in _KEPT_HEADERS if name in answer.headers},
    )
