"""A browser's session: it begins with a key or a one-time link and ends with a button."""

from __future__ import annotations

import hashlib
import hmac
from urllib.parse import urlsplit

from flask import Blueprint, Response, current_app, g, make_response, render_template, request
from itsdangerous import BadData, URLSafeTimedSerializer

from api import access
from api.access import is_open
from api.service import service
from pipeline.ledger import audit, keys
from pipeline.ledger.keys import Key

COOKIE = "omnai_session"
LIFETIME_S = 12 * 3600
"""A working day; the next morning begins with a key again."""

KEY_CHARS_MAX = 200
"""A key has about fifty."""

POLICY = (
    "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
"""Only files of this service run, style or show anything: no inline script, no inline style."""

REFUSED = "This key is not valid: it is unknown, has expired or was revoked."
LINK_REFUSED = "This link was used before or has expired. Sign in with a key, or ask for a new one."
FOREIGN = "This form was sent from another site. Sign in here."

session = Blueprint("session", __name__)


@session.before_app_request
def _resume() -> None:
    """Tell `api.access` whose session this is; a key that was revoked ends it at once."""
    g.session_key = None
    g.csrf_token = None
    token = request.cookies.get(COOKIE)
    if not token or request.endpoint == "static":
        return
    try:
        key_id = _signer().loads(token, max_age=LIFETIME_S)
    except BadData:
        return
    key = keys.get(service().database, key_id) if isinstance(key_id, str) else None
    if key is not None:
        g.session_key = key
        g.csrf_token = _csrf_token(token)


@session.after_request
def _guard(response: Response) -> Response:
    return guarded(response)


def guarded(response: Response) -> Response:
    """What every page's answer carries."""
    response.headers["Content-Security-Policy"] = POLICY
    # Same-origin, so that our own forms name where they come from.
    response.headers["Referrer-Policy"] = "same-origin"
    response.headers.setdefault("Cache-Control", "private, no-store")
    return response


@session.get("/sign-in")
@is_open
def sign_in_form() -> Response:
    """A form, or with a one-time token the session itself, as notebooks do it."""
    token = request.args.get("token")
    # A look ahead by HEAD, as chat programs do it for a preview, must not use the token up.
    if token is None or request.method == "HEAD":
        return _form()
    key = keys.take_sign_in(service().database, token[:KEY_CHARS_MAX])
    if key is None:
        return _form(problem=LINK_REFUSED, status=403)
    return _begin(key, way="link")


@session.post("/sign-in")
@is_open
def sign_in() -> Response:
    if not _is_ours():
        return _form(problem=FOREIGN, status=403)
    secret = request.form.get("key", "").strip()[:KEY_CHARS_MAX]
    key = keys.find(service().database, secret) if secret else None
    if key is None:
        return _form(problem=REFUSED, status=403)
    return _begin(key, way="key")


@session.post("/sign-out")
def sign_out() -> Response:
    access.record("signed_out", access.caller().id)
    response = make_response(_form())
    response.delete_cookie(COOKIE, path="/", httponly=True, samesite="Strict")
    return response


def _begin(key: Key, *, way: str) -> Response:
    audit.write(
        service().database,
        actor=key.id,
        owner=key.owner,
        action="signed_in",
        subject=key.id,
        detail={"way": way},
    )
    response = make_response(render_template("signed_in.html", next=_next(), key=None))
    response.set_cookie(
        COOKIE,
        _signer().dumps(key.id),
        max_age=LIFETIME_S,
        httponly=True,
        samesite="Strict",
        secure=request.is_secure,
        path="/",
    )
    return response


def _form(*, problem: str | None = None, status: int = 200) -> Response:
    page = render_template("sign_in.html", problem=problem, next=_next(), key=None)
    return make_response(page, status)


def _next() -> str:
    """Where the reader wanted to go: a path of ours and nothing that a browser reads otherwise."""
    wanted = request.form.get("next") or request.args.get("next") or ""
    is_path = (
        wanted.startswith(("/jobs", "/queue", "/night"))
        and wanted.isprintable()
        and "\\" not in wanted
    )
    return wanted if is_path and not urlsplit(wanted).netloc else "/jobs"


def _is_ours() -> bool:
    """Whether the form is this site's own: nobody shall sign a reader in as somebody else."""
    origin = request.headers.get("Origin")
    return origin is None or urlsplit(origin).netloc == request.host


def _csrf_token(token: str) -> str:
    """Bound to the session, so that one's own token is of no use in another's."""
    key = _secret() + b"csrf"
    return hmac.new(key, token.encode(), hashlib.sha256).hexdigest()


def _signer() -> URLSafeTimedSerializer:
    return URLSafeTimedSerializer(
        _secret(), salt="omnai.session", signer_kwargs={"digest_method": hashlib.sha256}
    )


def _secret() -> bytes:
    secret = current_app.secret_key
    if not secret:
        raise RuntimeError("the application has no secret key to sign sessions with")
    return secret if isinstance(secret, bytes) else secret.encode()
