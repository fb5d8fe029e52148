"""The pages that people read: jobs, a form to submit one, and a job with its brief."""

from __future__ import annotations

import importlib.resources
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from werkzeug.wrappers import Response as BaseResponse

from api import access, epochs, notes
from api import jobs as job_routes
from api.access import is_open
from api.errors import Refusal, status_of
from api.finder import finder
from api.forms import forms
from api.jobs import JobPath
from api.plan import plan
from api.queue import look
from api.service import service
from api.session import guarded
from pipeline.brief import sentences
from pipeline.brief.document import Brief, FindingEntry
from pipeline.brief.figures import utc
from pipeline.brief.render_html import to_html_body
from pipeline.brief.render_json import sha256
from pipeline.brief.visible import visible
from pipeline.clock import clock_text
from pipeline.errors import InputRefused, OmnaiError, Problem
from pipeline.ledger import recordings, views
from pipeline.ledger.errors import BlobMissing, BlobsUnavailable, NotesFull, RerunRefused
from pipeline.ledger.forecast import Line
from pipeline.ledger.jobs import ENDED
from pipeline.ledger.keys import Role
from pipeline.ledger.reruns import RerunStart
from pipeline.ledger.views import JobView
from pipeline.publish import assembled
from pipeline.records import JobState, Probe

JOBS_PER_PAGE = 30
TOLD = ENDED - {JobState.SUCCEEDED}
"""A job that succeeded has said so."""

DOWNLOADS: Mapping[str, str] = {
    "html": "HTML",
    "pdf": "PDF",
    "docx": "Word",
    "xlsx": "Excel",
    "csv": "CSV",
    "md": "Markdown",
    "json": "JSON",
    "vtt": "WebVTT",
    "srt": "SRT",
    "zip": "All with pictures (ZIP)",
}
"""By the name of the format, in the order that they are offered."""

pages = Blueprint("pages", __name__)
pages.register_blueprint(forms)
pages.register_blueprint(finder)
pages.register_blueprint(plan)


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
def _refused(error: OmnaiError) -> BaseResponse:
    """A page instead of a problem document; somebody without a session is asked to sign in."""
    status = status_of(error)
    if status == 401 and request.method == "GET":
        wanted = request.full_path.rstrip("?")
        return redirect(url_for("session.sign_in_form", next=wanted), 303)
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
def home() -> BaseResponse:
    return redirect(url_for("pages.jobs"), 303)


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
        shows_owner=access.sight() is None,
    )
    return make_response(page)


@pages.get("/jobs/<job_id>")
def job(job_id: str) -> Response:
    return _job_page(job_id)


@pages.post("/jobs/<job_id>/cancel")
def cancel(job_id: str) -> BaseResponse:
    try:
        job_routes.cancel(path=JobPath(job_id=job_id))
    except Refusal as refusal:
        return _job_page(job_id, notice=refusal.message, status=status_of(refusal))
    return redirect(url_for("pages.job", job_id=job_id), 303)


@pages.post("/jobs/<job_id>/rerun")
def rerun(job_id: str) -> BaseResponse:
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
    return redirect(url_for("pages.job", job_id=job_id), 303)


@pages.post("/jobs/<job_id>/findings/<key>/notes")
def note(job_id: str, key: str) -> BaseResponse:
    view, finding = _view(job_id), notes.read_key(key)
    text = request.form.get("text", "")
    try:
        action, said = notes.checked(request.form.get("action"), text)
        notes.add(view, finding, action=action, text=said)
    except (InputRefused, NotesFull) as error:
        told = [error.message] if isinstance(error, NotesFull) else _messages(error)
        refused = RefusedNote(key=key, text=text, messages=told)
        return _job_page(job_id, refused_note=refused, status=status_of(error))
    return redirect(url_for("pages.job", job_id=view.id, _anchor=f"review-{key}"), 303)


def _messages(refused: InputRefused) -> list[str]:
    return [found.message for found in refused.problems]


# --- a job -------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class RefusedNote:
    """What was typed about a finding, so that a refusal takes nothing away."""

    key: str
    text: str
    messages: Sequence[str]


def _view(job_id: str) -> JobView:
    return views.get(service().database, job_id, owner=access.sight())


def _job_page(
    job_id: str,
    *,
    notice: str | None = None,
    rerun: Mapping[str, str] | None = None,
    rerun_problems: Sequence[str] = (),
    refused_note: RefusedNote | None = None,
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
        reason=sentences.end_reason(view.end_reason) if view.state in TOLD else None,
        expected=_expected(view),
        can_rerun=_can_rerun(view),
        rerun=rerun or {},
        rerun_problems=rerun_problems,
        media_href=media_href,
        player_kind="video" if probe is not None and _has_picture(probe) else "audio",
        origin_ms=view.origin_ms or 0,
        brief_html=None if brief is None else _brief_body(brief, view, media_href, refused_note),
        downloads=DOWNLOADS,
        brief_version="" if brief is None else sha256(brief),
    )
    return make_response(page, status)


def _expected(view: JobView) -> Line | None:
    """For a job that is wanted by a time: whether it will be there; none once it has ended."""
    if view.ready_by is None or view.state in ENDED:
        return None
    return look().line(view.id)


def _can_rerun(view: JobView) -> bool:
    """Without a recording there is nothing to run."""
    is_ended = view.state in ENDED and view.recording_id is not None
    return access.caller().role is Role.ADMIN and is_ended


def _media(view: JobView) -> tuple[str | None, Probe | None]:
    """Where the recording plays from; nothing where its bytes are not stored here."""
    if view.recording_id is None:
        return None, None
    recording = recordings.get(service().database, view.recording_id, owner=None)
    if not _is_kept(recording.sha256):
        return None, recording.probe
    return url_for("media.fetch", recording_id=recording.id), recording.probe


def _is_kept(sha256: str) -> bool:
    """Where the storage does not answer, the player will say so; the brief is here all the same."""
    try:
        service().blobs.size(sha256)
    except BlobMissing:
        return False
    except BlobsUnavailable:
        return True
    return True


def _has_picture(probe: Probe) -> bool:
    return any(stream.kind == "video" and stream.is_chosen for stream in probe.streams)


def _brief(view: JobView) -> Brief | None:
    """None before the first epoch: nothing but zeros could be said."""
    if view.recording_id is None or (view.epoch is None and view.state not in ENDED):
        return None
    return assembled(service().database, view.id, release=service().release)


def _brief_body(
    brief: Brief, view: JobView, media_href: str | None, refused_note: RefusedNote | None
) -> Markup:
    def tools(finding: FindingEntry) -> Markup:
        refused = refused_note if refused_note and refused_note.key == finding.key else None
        form = render_template(
            "review.html",
            job=view,
            finding=finding,
            refused=refused,
            text_max=notes.TEXT_CHARS_MAX,
        )
        return Markup(form)

    return to_html_body(
        brief,
        tools=tools,
        recording_href=media_href,
        picture=lambda sha256: url_for("frames.fetch", job_id=view.id, sha256=sha256),
    )


def _rerun_start(start: str, second: str, problems: list[Problem]) -> RerunStart | int:
    if start in set(RerunStart):
        return RerunStart(start)
    if second.isascii() and second.isdigit() and int(second[:12]) <= epochs.START_S_MAX:
        return int(second[:12])
    message = f"give a whole source second from 0 to {epochs.START_S_MAX}, or choose another start"
    problems.append(Problem(code="from_invalid", where="/from", message=message))
    return 0
