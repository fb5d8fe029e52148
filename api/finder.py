"""The page that searches the findings of all jobs."""

from __future__ import annotations

from collections.abc import Mapping

from flask import Blueprint, Response, make_response, render_template, request
from pydantic import ValidationError

from api import access
from api.errors import from_validation
from api.search import HOLDING_CHARS_MAX, TEXT_CHARS_MAX, SearchQuery, filters_of, moment
from api.service import service
from pipeline.errors import InputRefused
from pipeline.ledger import search
from pipeline.ledger.search import Hit
from pipeline.records import NoteState

HITS_PER_PAGE = 30

FIELDS = ("text", "holding", "state", "submitted_from", "submitted_to")

finder = Blueprint("finder", __name__)


@finder.get("/jobs/search")
def find() -> Response:
    given = {name: value for name in FIELDS if (value := request.args.get(name, "").strip())}
    after = request.args.get("after")
    hits: tuple[Hit, ...] = ()
    following = None
    problems: Mapping[str, str] = {}
    # Without anything to search for, the newest findings are shown.
    try:
        query = SearchQuery.model_validate(given | ({"after": after} if after else {}))
        hits, following = search.findings(
            service().database,
            filters_of(query),
            owner=access.sight(),
            after=query.after,
            limit=HITS_PER_PAGE,
        )
    except ValidationError as error:
        problems = _problems(from_validation(error, is_body=False))
    except InputRefused as refused:
        problems = _problems(refused)
    page = render_template(
        "search.html",
        here="search",
        given=given,
        problems=problems,
        states=list(NoteState),
        hits=[(hit, moment(hit)) for hit in hits],
        next_cursor=following,
        is_later=after is not None,
        shows_owner=access.sight() is None,
        text_max=TEXT_CHARS_MAX,
        holding_max=HOLDING_CHARS_MAX,
    )
    return make_response(page, 422 if problems else 200)


def _problems(refused: InputRefused) -> Mapping[str, str]:
    return {problem.where: problem.message for problem in refused.problems}
