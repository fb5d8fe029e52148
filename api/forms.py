"""The form that submits a recording with a portfolio and an objective."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from http import HTTPStatus

from flask import Blueprint, Response, make_response, redirect, render_template, request, url_for
from werkzeug.exceptions import RequestEntityTooLarge
from werkzeug.wrappers import Response as BaseResponse

from api import access, submissions
from api.errors import problem, status_of
from api.recordings import receive_form
from api.service import service
from api.submissions import Checked
from api.uploads import open_body
from pipeline import intake
from pipeline.errors import InputRefused, OmnaiError, Problem
from pipeline.ledger import recordings
from pipeline.ledger.database import Transaction
from pipeline.ledger.errors import RecordingUnknown
from pipeline.ledger.recordings import Recording
from pipeline.ledger.views import JobView
from pipeline.night import read_zone
from pipeline.plain import to_plain
from pipeline.portfolio import FILE_BYTES_MAX, read_portfolio
from pipeline.request import OBJECTIVE_CHARS_MAX, TITLE_CHARS_MAX
from pipeline.schedule import OWN_PRIORITY_MIN, PRIORITY_BOUNDS, with_offset

FORM_BYTES_MAX = 2 * FILE_BYTES_MAX
"""A portfolio, chosen or pasted, and the small fields."""

STREAM_FIELDS = ("audio_stream", "video_stream")
"""Options that the form has too."""

WHEN_FIELDS = ("priority", "not_before", "ready_by", "zone")
"""When the job is wanted; its times are read by the clocks of the zone."""

FORM_FIELDS = (
    *("recording", "source_url", "portfolio", "objective", "title", "event_date", "engine"),
    *STREAM_FIELDS,
    *WHEN_FIELDS,
)

OF_THE_FILE = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNPROCESSABLE_ENTITY,
    HTTPStatus.INSUFFICIENT_STORAGE,
    HTTPStatus.SERVICE_UNAVAILABLE,
)
"""Refusals that stand beside the file; others have a page of their own."""

_WHOLE = re.compile(r"-?[0-9]{1,9}")

forms = Blueprint("forms", __name__)


@dataclass(frozen=True, kw_only=True)
class Typed:
    """What was typed, so that a refusal takes nothing away."""

    recording_id: str = ""
    source_url: str = ""
    portfolio_text: str = ""
    objective: str = ""
    title: str = ""
    event_date: str = ""
    engine: str = ""
    audio_stream: str = ""
    video_stream: str = ""
    priority: str = ""
    not_before: str = ""
    ready_by: str = ""
    zone: str = ""

    @property
    def schedule(self) -> dict[str, object]:
        """As the API takes it. What is no number and no time is refused by whoever checks it;
        raises InputRefused for a time without a zone that is known."""
        priority, times = self.priority.strip(), (self.not_before, self.ready_by)
        given: dict[str, object] = {
            "priority": int(priority) if _WHOLE.fullmatch(priority) else priority or None,
            "not_before": None,
            "ready_by": None,
        }
        if not any(text.strip() for text in times):
            return given
        try:
            zone = read_zone(self.zone)
        except ValueError as error:
            message = "it is no name of a time zone; one is accepted such as Europe/Berlin or UTC"
            found = Problem(code="zone_unknown", where="/zone", message=message)
            raise InputRefused(found) from error
        for name, text in zip(("not_before", "ready_by"), times, strict=True):
            if text.strip():
                given[name] = with_offset(text, zone)
        return given

    @property
    def options(self) -> dict[str, object]:
        """What is no number is refused by whoever checks options."""
        given = {name: getattr(self, name).strip() for name in STREAM_FIELDS}
        return {
            name: int(text) if text.isascii() and text.isdecimal() else text
            for name, text in given.items()
            if text
        }


@forms.get("/jobs/new")
def new() -> Response:
    recording_id = request.args.get("recording_id", "")
    return _form(replace(_fresh(), recording_id=recording_id))


@forms.post("/jobs/new/recording")
@access.checks_csrf
def upload() -> BaseResponse:
    """The recording, as a browser without scripts sends it before the rest of the form."""
    open_body()
    typed = _fresh()
    try:
        with service().admission.place():
            received, _ = receive_form()
            recording = intake.keep(
                service().database,
                service().blobs,
                received,
                limits=service().settings.media,
                then=_record_upload,
            )
    except RequestEntityTooLarge:
        message = f"the file is too large; at most {service().upload_bytes_max} bytes are accepted"
        return _form(typed, [_of_file("upload_too_large", message)], status=413)
    except OmnaiError as error:
        if status_of(error) not in OF_THE_FILE:
            raise
        told = error.problems[0].message if isinstance(error, InputRefused) else error.message
        return _form(typed, [_of_file(error.code, told)], status=status_of(error))
    return redirect(url_for(".new", recording_id=recording.id), 303)


@forms.post("/jobs/check")
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
    told = {"portfolio": json.dumps(to_plain(holdings)), "schedule": typed.schedule}
    return Response(json.dumps(told), mimetype="application/json")


@forms.post("/jobs/new")
@access.checks_csrf
def create() -> BaseResponse:
    """The form as a browser without scripts sends it, after its recording."""
    request.max_content_length = FORM_BYTES_MAX
    typed = _typed()
    access.check_csrf(request.form.get(access.CSRF_FIELD))
    try:
        asked = _asked(
            typed,
            *_portfolio(typed),
            recording_id=typed.recording_id or None,
            source_url=typed.source_url.strip() or None,
        )
    except InputRefused as refused:
        return _form(typed, refused.problems, status=422)
    owner = access.caller().owner
    job_id = submissions.commit(service(), asked, owner=owner, then=_record_job)
    return redirect(url_for("pages.job", job_id=job_id), 303)


def _record_upload(within: Transaction, recording: Recording) -> None:
    access.record("recording_uploaded", recording.id, within=within)


def _record_job(within: Transaction, view: JobView) -> None:
    about = {"recording_id": view.recording_id}
    access.record("job_submitted", view.id, about, within=within)


def _fresh() -> Typed:
    """Nothing typed yet."""
    settings = service().settings
    return Typed(engine=settings.engine, zone=settings.night_zone or "UTC")


def _typed() -> Typed:
    request.max_form_memory_size = FORM_BYTES_MAX
    return Typed(**{part.name: request.form.get(part.name, "") for part in fields(Typed)})


def _portfolio(typed: Typed) -> tuple[bytes | None, str | None]:
    """The file, else what was pasted; nothing where there is neither."""
    file = request.files.get("portfolio")
    if file is not None and file.filename:
        return file.stream.read(FILE_BYTES_MAX + 1), file.filename
    if typed.portfolio_text.strip():
        return typed.portfolio_text.encode("utf-8", "surrogatepass"), None
    return None, None


def _asked(
    typed: Typed,
    data: bytes | None,
    name: str | None,
    *,
    recording_id: str | None,
    source_url: str | None,
) -> Checked:
    refused: tuple[Problem, ...] = ()
    schedule: dict[str, object] = {}
    try:
        schedule = typed.schedule
    except InputRefused as error:
        refused = error.problems
    try:
        asked = submissions.check(
            service(),
            sight=access.sight(),
            recording_id=recording_id,
            source_url=source_url,
            portfolio=data,
            portfolio_name=name,
            objective=typed.objective,
            title=typed.title,
            event_date=typed.event_date,
            engine=typed.engine or None,
            options=typed.options,
            **schedule,
        )
    except InputRefused as error:
        raise InputRefused(*error.problems, *refused) from error
    if refused:
        raise InputRefused(*refused)
    return asked


def _refusals(typed: Typed, data: bytes | None, name: str | None) -> list[Problem]:
    """Of everything but the recording, which is not there yet; of its link, where there is one."""
    try:
        _asked(typed, data, name, recording_id=None, source_url=typed.source_url.strip() or None)
    except InputRefused as refused:
        return [found for found in refused.problems if found.where != "/recording_id"]
    return []


def _of_file(code: str, message: str) -> Problem:
    return Problem(code=code, where="/recording_id", message=message)


def _form(typed: Typed, problems: Sequence[Problem] = (), *, status: int = 200) -> Response:
    refused: dict[str, list[Problem]] = {}
    for found in problems:
        field, _, rest = found.where.removeprefix("/").removeprefix("options/").partition("/")
        field = "recording" if field == "recording_id" else field
        shown = replace(found, where=rest.replace("/", " "))
        refused.setdefault(field if field in FORM_FIELDS else "general", []).append(shown)
    page = render_template(
        "new.html",
        here="new",
        typed=typed,
        recording=_recording(typed.recording_id),
        refused=refused,
        engines=sorted(service().engines),
        takes_links=service().settings.fetch_urls,
        objective_max=OBJECTIVE_CHARS_MAX,
        title_max=TITLE_CHARS_MAX,
        priority_min=PRIORITY_BOUNDS[0] if access.sight() is None else OWN_PRIORITY_MIN,
        priority_max=PRIORITY_BOUNDS[1],
        has_night=service().settings.window is not None,
        upload_max=f"{service().upload_bytes_max / 1e9:.0f} GB",
    )
    return make_response(page, status)


def _recording(recording_id: str) -> Recording | None:
    """The upload that is kept; an id that is no recording of the reader's counts as none."""
    try:
        return recordings.get(service().database, recording_id, owner=access.sight())
    except RecordingUnknown:
        return None
