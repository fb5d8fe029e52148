"""The pages that people read: jobs, a form to submit one, and a job with its brief."""

from __future__ import annotations

import base64
import importlib.resources
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime

from flask import (
    Blueprint,
    Response,
    g,
    make_response,
    redirect,
    render_template,
    request,
    url_for,
)
from markupsafe import Markup
from werkzeug.datastructures import FileStorage

from api import access, epochs, submissions, uploads
from api import jobs as job_routes
from api.access import is_open
from api.errors import Refusal, problem, status_of
from api.jobs import JobPath
from api.service import service
from api.session import guarded
from api.submissions import Checked
from pipeline.brief import wording
from pipeline.brief.assemble import assemble
from pipeline.brief.document import Brief
from pipeline.brief.figures import utc
from pipeline.brief.render_html import to_html
from pipeline.brief.render_json import sha256
from pipeline.brief.visible import visible
from pipeline.clock import clock_text
from pipeline.errors import InputRefused, OmnaiError, Problem
from pipeline.ledger import dossiers, recordings, views
from pipeline.ledger.errors import RerunRefused
from pipeline.ledger.jobs import ENDED
from pipeline.ledger.keys import Role
from pipeline.ledger.reruns import RerunStart
from pipeline.ledger.views import JobView
from pipeline.plain import to_plain
from pipeline.portfolio import FILE_BYTES_MAX, read_portfolio
from pipeline.records import JobState, Probe
from pipeline.request import OBJECTIVE_CHARS_MAX, TITLE_CHARS_MAX

JOBS_PER_PAGE = 30
FORM_BYTES_MAX = 2 * FILE_BYTES_MAX
"""A pasted portfolio and the small fields; files are not held in memory."""
FORM_FIELDS = ("recording", "portfolio", "objective", "title", "event_date", "engine")

TOLD = ENDED - {JobState.SUCCEEDED}
"""A job that succeeded has said so."""

BODY_START = '<div class="page">'
_PICTURE = re.compile(r'src="data:image/jpeg;base64,([A-Za-z0-9+/]+={0,2})"')

pages = Blueprint("pages", __name__)


@dataclass(frozen=True, kw_only=True)
class Typed:
    """What was typed, so that a refusal takes nothing away."""

    recording_id: str = ""
    portfolio_text: str = ""
    objective: str = ""
    title: str = ""
    event_date: str = ""
    engine: str = ""


# --- what the templates use --------------------------------------------------------------------


@pages.app_template_filter("seen")
def _seen(text: object) -> str:
    return visible(str(text))


@pages.app_template_filter("clock")
def _clock(ms: int) -> str:
    return clock_text(ms)


@pages.app_template_filter("rfc3339")
def _rfc3339(at: datetime) -> str:
    return utc(at)


@pages.app_template_test("live")
def _is_live(job: JobView) -> bool:
    return job.state not in ENDED


@pages.after_request
def _guard(response: Response) -> Response:
    return guarded(response)


@pages.errorhandler(OmnaiError)
def _refused(error: OmnaiError) -> Response:
    """A page instead of a problem document; somebody without a session is asked to sign in."""
    status = status_of(error)
    if status == 401 and request.method == "GET":
        wanted = request.full_path.rstrip("?")
        return _redirect(url_for("session.sign_in_form", next=wanted))
    titles = {401: "Please sign in", 403: "Not allowed", 404: "Not found"}
    page = render_template(
        "problem.html", title=titles.get(status, "Something is wrong"), detail=error.message
    )
    return make_response(page, status)


@pages.context_processor
def _reader() -> dict[str, object]:
    return {"key": g.get("key"), "csrf_token": g.get("csrf_token")}


# --- pages -------------------------------------------------------------------------------------


@pages.get("/")
def home() -> Response:
    return _redirect(url_for("pages.jobs"))


@pages.get("/brief.css")
@is_open
def brief_style() -> Response:
    """The brief's own style sheet, so that a brief looks here as it does in its file."""
    sheet = importlib.resources.files("pipeline.brief") / "templates" / "brief.css"
    response = Response(sheet.read_bytes(), mimetype="text/css")
    response.headers["Cache-Control"] = "no-cache"
    response.add_etag()
    response.make_conditional(request)
    return response


@pages.get("/jobs")
def jobs() -> Response:
    wanted = request.args.get("state")
    state = JobState(wanted) if wanted in set(JobState) else None
    after = request.args.get("after")
    listed, following = views.page(
        service().database, owner=access.sight(), state=state, after=after, limit=JOBS_PER_PAGE
    )
    page = render_template(
        "jobs.html",
        here="jobs",
        jobs=listed,
        state=None if state is None else state.value,
        next_cursor=following,
        is_later=after is not None,
        is_live=any(map(_is_live, listed)),
        counts=_holding_counts(listed),
        shows_owner=access.sight() is None,
    )
    return make_response(page)


@pages.get("/jobs/new")
def new() -> Response:
    return _form(Typed(engine=service().settings.engine))


@pages.post("/jobs/check")
def check() -> Response:
    """What can be said before a file is sent; the portfolio comes back as the API takes it."""
    typed = _typed()
    data, name = _portfolio(typed)
    problems = _refusals(typed, data, name)
    if problems or data is None:
        errors = [
            {"code": found.code, "pointer": found.where, "detail": found.message}
            for found in problems
        ]
        return problem("input_refused", 422, "the form was refused", errors=errors)
    holdings = read_portfolio(data, filename=name).holdings
    told = {"portfolio": json.dumps(to_plain(holdings))}
    return Response(json.dumps(told), mimetype="application/json")


@pages.post("/jobs/new")
@access.checks_csrf
def create() -> Response:
    """The form as a browser without scripts sends it: everything at once."""
    request.max_content_length = service().upload_bytes_max + FORM_BYTES_MAX
    request.max_form_memory_size = FORM_BYTES_MAX
    access.check_csrf(request.form.get(access.CSRF_FIELD))
    typed = _typed()
    problems: list[Problem] = []
    file = request.files.get("file")
    if file is not None and file.filename:
        try:
            typed = replace(typed, recording_id=_kept(file))
        except OmnaiError as error:
            problems.append(Problem(code=error.code, where="/recording_id", message=error.message))
    try:
        asked = _asked(typed, *_portfolio(typed), recording_id=typed.recording_id or None)
    except InputRefused as refused:
        known = {found.where for found in problems}
        problems += [found for found in refused.problems if found.where not in known]
        return _form(typed, problems, status=422)
    job_id = submissions.commit(service(), asked, owner=access.caller().owner)
    access.record("job_submitted", job_id, {"recording_id": asked.recording.id})
    return _redirect(url_for("pages.job", job_id=job_id))


@pages.get("/jobs/<job_id>")
def job(job_id: str) -> Response:
    return _job_page(job_id)


@pages.post("/jobs/<job_id>/cancel")
def cancel(job_id: str) -> Response:
    try:
        job_routes.cancel(path=JobPath(job_id=job_id))
    except Refusal as refusal:
        return _job_page(job_id, notice=refusal.message, status=status_of(refusal))
    return _redirect(url_for("pages.job", job_id=job_id))


@pages.post("/jobs/<job_id>/rerun")
def rerun(job_id: str) -> Response:
    access.require_admin()
    view = _view(job_id)
    given = {name: request.form.get(name, "").strip() for name in ("from", "second", "reason")}
    problems: list[Problem] = []
    start = _rerun_start(given["from"], given["second"], problems)
    reason = epochs.checked_reason(given["reason"], problems)
    told, status = [found.message for found in problems], 422
    if not told:
        try:
            epochs.rerun(view.id, start=start, reason=reason)
        except RerunRefused as refused:
            told, status = [refused.message], status_of(refused)
    if told:
        return _job_page(job_id, rerun=given, rerun_problems=told, status=status)
    return _redirect(url_for("pages.job", job_id=job_id))


# --- the form ----------------------------------------------------------------------------------


def _typed() -> Typed:
    request.max_form_memory_size = FORM_BYTES_MAX
    return Typed(**{part.name: request.form.get(part.name, "") for part in fields(Typed)})


def _portfolio(typed: Typed) -> tuple[bytes | None, str | None]:
    """The file, else what was pasted; nothing where there is neither."""
    file = request.files.get("portfolio")
    if file is not None and file.filename:
        file.stream.seek(0)
        return file.stream.read(FILE_BYTES_MAX + 1), file.filename
    if typed.portfolio_text.strip():
        return typed.portfolio_text.encode("utf-8", "surrogatepass"), None
    return None, None


def _asked(
    typed: Typed, data: bytes | None, name: str | None, *, recording_id: str | None
) -> Checked:
    return submissions.check(
        service(),
        sight=access.sight(),
        recording_id=recording_id,
        portfolio=data,
        portfolio_name=name,
        objective=typed.objective,
        title=typed.title,
        event_date=typed.event_date,
        engine=typed.engine or None,
    )


def _refusals(typed: Typed, data: bytes | None, name: str | None) -> list[Problem]:
    """Of everything but the recording, which is not there yet."""
    try:
        _asked(typed, data, name, recording_id=None)
    except InputRefused as refused:
        return [found for found in refused.problems if found.where != "/recording_id"]
    return []


def _kept(file: FileStorage) -> str:
    received = uploads.receive(
        service(),
        uploads.read_chunks(file.stream),
        owner=access.caller().owner,
        filename=uploads.clean_filename(file.filename),
        bytes_max=service().upload_bytes_max,
    )
    recording = uploads.keep(service(), received)
    access.record("recording_uploaded", recording.id)
    return recording.id


def _form(typed: Typed, problems: Sequence[Problem] = (), *, status: int = 200) -> Response:
    refused: dict[str, list[Problem]] = {}
    for found in problems:
        field, _, rest = found.where.removeprefix("/").partition("/")
        field = "recording" if field == "recording_id" else field
        shown = replace(found, where=rest.replace("/", " "))
        refused.setdefault(field if field in FORM_FIELDS else "general", []).append(shown)
    page = render_template(
        "new.html",
        here="new",
        typed=typed,
        refused=refused,
        engines=sorted(service().engines),
        objective_max=OBJECTIVE_CHARS_MAX,
        title_max=TITLE_CHARS_MAX,
        upload_max=f"{service().upload_bytes_max / 1e9:.0f} GB",
    )
    return make_response(page, status)


# --- a job -------------------------------------------------------------------------------------


def _view(job_id: str) -> JobView:
    return views.get(service().database, job_id, owner=access.sight())


def _job_page(
    job_id: str,
    *,
    notice: str | None = None,
    rerun: Mapping[str, str] | None = None,
    rerun_problems: Sequence[str] = (),
    status: int = 200,
) -> Response:
    view = _view(job_id)
    api_href = url_for("jobs.show", job_id=view.id)
    media_href, probe = _media(view)
    brief = _brief(view)
    access.record_fetch("brief_fetched", view.id)
    page = render_template(
        "job.html",
        job=view,
        api_href=api_href,
        notice=notice,
        reason=wording.end_reason(view.end_reason) if view.state in TOLD else None,
        can_rerun=access.caller().role is Role.ADMIN and view.state in ENDED,
        rerun=rerun or {},
        rerun_problems=rerun_problems,
        media_href=media_href,
        player_kind="video" if probe is not None and _has_picture(probe) else "audio",
        origin_ms=0 if probe is None else probe.origin_ms,
        brief_html=None if brief is None else _brief_body(brief, view, media_href),
        brief_version="" if brief is None else sha256(brief),
    )
    return make_response(page, status)


def _media(view: JobView) -> tuple[str | None, Probe | None]:
    """Where the recording plays from; nothing where its bytes are not stored here."""
    if view.recording_id is None:
        return None, None
    recording = recordings.get(service().database, view.recording_id, owner=None)
    if not service().blobs.path(recording.sha256).exists():
        return None, recording.probe
    return url_for("media.fetch", recording_id=recording.id), recording.probe


def _has_picture(probe: Probe) -> bool:
    return any(stream.kind == "video" and stream.is_chosen for stream in probe.streams)


def _brief(view: JobView) -> Brief | None:
    """None before the first epoch: nothing but zeros could be said."""
    if view.recording_id is None or (view.epoch is None and view.state not in ENDED):
        return None
    return assemble(dossiers.load(service().database, view.id), release=service().release)


def _brief_body(brief: Brief, view: JobView, media_href: str | None) -> Markup:
    """The brief's own document from its body on, its pictures by address.

    It is the one rendering there is: all text in it is escaped, and nothing is rendered anew.
    """
    document = to_html(brief, recording_href=media_href, frame_bytes=bytes.fromhex)
    body = document.partition(BODY_START)[2].rpartition("</body>")[0]
    if not body:
        raise OmnaiError("the brief's document has no body where it is expected")
    frames = url_for("jobs.show", job_id=view.id) + "/frames/"

    def by_address(found: re.Match[str]) -> str:
        return f'loading="lazy" src="{frames}{base64.b64decode(found[1]).hex()}.jpg"'

    return Markup(BODY_START + _PICTURE.sub(by_address, body))


def _rerun_start(start: str, second: str, problems: list[Problem]) -> RerunStart | int:
    if start in set(RerunStart):
        return RerunStart(start)
    if second.isascii() and second.isdigit() and int(second[:12]) <= epochs.START_S_MAX:
        return int(second[:12])
    message = f"give a whole source second from 0 to {epochs.START_S_MAX}, or choose another start"
    problems.append(Problem(code="from_invalid", where="/from", message=message))
    return 0


def _holding_counts(listed: Sequence[JobView]) -> Mapping[str, int] | None:
    """Shown once the ledger tells them; to load every portfolio for it would cost too much."""
    counts = {view.id: getattr(view, "holding_count", None) for view in listed}
    known = {job_id: count for job_id, count in counts.items() if isinstance(count, int)}
    return known if len(known) == len(counts) else None


def _redirect(address: str) -> Response:
    return make_response(redirect(address, 303))
