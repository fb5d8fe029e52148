"""A job as it is asked for: checked as a whole, then written, then rung for."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from api.bodies import Member
from api.service import Service
from pipeline import prompt
from pipeline.errors import ContextTooLong, InputRefused, Problem
from pipeline.intake import clean_filename
from pipeline.ledger import clock, recordings, submissions
from pipeline.ledger.database import Transaction
from pipeline.ledger.errors import RecordingUnknown
from pipeline.ledger.fetches import LinkedFile
from pipeline.ledger.recordings import Recording
from pipeline.ledger.submissions import ANYTIME
from pipeline.ledger.views import JobView
from pipeline.link import WHERE, LinkRefused, read_link
from pipeline.portfolio import Portfolio, read_portfolio
from pipeline.records import Request
from pipeline.request import build_request, recording_problems
from pipeline.schedule import Schedule, build_schedule
from worker.enqueue import ring_for as ring

FIELDS = (
    "recording_id",
    "source_url",
    "portfolio",
    "objective",
    "title",
    "event_date",
    "engine",
    "options",
    "priority",
    "not_before",
    "ready_by",
)

Members = Mapping[str, Member]

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Checked:
    """A submission that nothing speaks against."""

    recording: Recording | LinkedFile
    portfolio: Portfolio
    request: Request
    schedule: Schedule


def check(
    service: Service,
    *,
    sight: str | None,
    recording_id: object,
    source_url: object = None,
    portfolio: bytes | None,
    portfolio_name: str | None,
    objective: object,
    title: object = None,
    event_date: object = None,
    engine: object = None,
    options: object = None,
    priority: object = None,
    not_before: object = None,
    ready_by: object = None,
) -> Checked:
    """Raises InputRefused with everything that is wrong, by JSON pointer; writes nothing."""
    problems: list[Problem] = []
    checked_options: Mapping[str, object] = {}
    if isinstance(options, Mapping):
        checked_options = options
    elif options is not None:
        problems.append(_problem("options_type", "/options", "give an object of options"))
    recording = _source(service, sight, recording_id, source_url, problems)
    holdings = _portfolio(portfolio, portfolio_name, problems)
    schedule = ANYTIME
    try:
        schedule = build_schedule(
            priority=priority,
            not_before=not_before,
            ready_by=ready_by,
            now=clock.now(service.database),
            is_admin=sight is None,
        )
    except InputRefused as refused:
        problems += refused.problems
    try:
        asked = build_request(
            objective=objective,
            title=title,
            event_date=event_date,
            engine=service.settings.engine if engine is None else engine,
            options=checked_options,
            engines=service.engines,
        )
    except InputRefused as refused:
        raise InputRefused(*problems, *refused.problems) from refused
    if isinstance(recording, Recording) and recording.probe is not None:
        problems += recording_problems(asked.options, recording.probe)
    if holdings is not None:
        problems += _context(service, asked, holdings)
    if problems or recording is None or holdings is None:
        raise InputRefused(*problems)
    return Checked(recording=recording, portfolio=holdings, request=asked, schedule=schedule)


def check_members(service: Service, members: Mapping[str, Member], *, sight: str | None) -> Checked:
    """The same for a JSON body, whose portfolio may be JSON or CSV text."""
    given = {name: member.value for name, member in members.items() if name != "portfolio"}
    portfolio, name = _portfolio_text(members.get("portfolio"))
    return check(
        service,
        sight=sight,
        recording_id=given.pop("recording_id", None),
        objective=given.pop("objective", None),
        portfolio=portfolio,
        portfolio_name=name,
        **given,
    )


def commit(
    service: Service,
    checked: Checked,
    *,
    owner: str,
    then: Callable[[Transaction, JobView], None] | None = None,
) -> str:
    """Write the job and what `then` writes, then ring where a worker could begin at once.

    A bell that nobody hears costs seconds, not the job.
    """
    job_id = submissions.submit(
        service.database,
        owner=owner,
        recording=checked.recording,
        request=checked.request,
        portfolio_holdings=checked.portfolio.holdings,
        portfolio_sha256=checked.portfolio.sha256,
        engine=checked.request.engine,
        schedule=checked.schedule,
        then=then,
    )
    if isinstance(checked.recording, Recording):
        ring_for(service, job_id)
    return job_id


def ring_for(service: Service, job_id: str) -> None:
    if not ring(service.settings, service.database, job_id):
        log.warning(
            "The queue did not take the bell; the dispatcher will ring.",
            extra={"action": "ring", "job_id": job_id},
        )


def _portfolio_text(member: Member | None) -> tuple[bytes | None, str | None]:
    if member is None or member.value is None:
        return None, None
    if isinstance(member.value, str):
        # A lone surrogate is no text; the portfolio's reader says so better than an encoder does.
        return member.value.encode("utf-8", "surrogatepass"), None
    return member.text.encode("utf-8", "surrogatepass"), "portfolio.json"


def _source(
    service: Service,
    sight: str | None,
    recording_id: object,
    source_url: object,
    problems: list[Problem],
) -> Recording | LinkedFile | None:
    """The recording that is here, or the link that it is to be fetched from."""
    if source_url is None:
        return _recording(service, sight, recording_id, problems)
    if not service.settings.fetch_urls:
        problems.append(
            _problem(
                "fetching_off", WHERE, "links are not fetched here; upload the recording instead"
            )
        )
        return None
    if recording_id is not None:
        problems.append(
            _problem("source_twice", WHERE, "give “recording_id” or “source_url”, not both")
        )
        return None
    try:
        link = read_link(source_url)
    except LinkRefused as refused:
        problems += refused.problems
        return None
    return LinkedFile(link=link, filename=clean_filename(link.filename))


def _recording(
    service: Service, sight: str | None, recording_id: object, problems: list[Problem]
) -> Recording | None:
    if not isinstance(recording_id, str):
        problems.append(
            _problem("recording_missing", "/recording_id", "give the id of an uploaded recording")
        )
        return None
    try:
        recording = recordings.get(service.database, recording_id, owner=sight)
    except RecordingUnknown:
        problems.append(
            _problem("recording_unknown", "/recording_id", "there is no such recording of yours")
        )
        return None
    if not recording.is_stored:
        problems.append(
            _problem(
                "recording_not_stored",
                "/recording_id",
                "no copy of this recording is held here; upload it",
            )
        )
    return recording


def _portfolio(data: bytes | None, name: str | None, problems: list[Problem]) -> Portfolio | None:
    if data is None:
        problems.append(
            _problem(
                "portfolio_missing",
                "/portfolio",
                "give the holdings: a list, an object with “holdings”, or CSV as text",
            )
        )
        return None
    try:
        return read_portfolio(data, filename=name)
    except InputRefused as refused:
        problems.extend(_within(problem) for problem in refused.problems)
        return None


def _context(service: Service, asked: Request, portfolio: Portfolio) -> tuple[Problem, ...]:
    """Whether the engine takes so long a context; where no tokenizer is, its worker will say."""
    text = prompt.system_text(asked.objective, portfolio.holdings)
    try:
        prompt.check_context(text, engine=asked.engine, folder=service.settings.model_folder)
    except ContextTooLong as refused:
        return refused.problems
    return ()


def _within(problem: Problem) -> Problem:
    if problem.where.startswith("/") or not problem.where:
        return _problem(problem.code, f"/portfolio{problem.where}", problem.message)
    # Rows and columns of CSV have no pointer.
    return _problem(problem.code, "/portfolio", f"{problem.where}: {problem.message}")


def _problem(code: str, where: str, message: str) -> Problem:
    return Problem(code=code, where=where, message=message)
