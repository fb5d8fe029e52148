"""Notes on findings: a log of what analysts did, and the brief that shows it."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

from flask import Response, request, url_for
from flask_openapi3.blueprint import APIBlueprint
from flask_openapi3.models.tag import Tag
from pydantic import Field

from api import access, idempotency
from api.answers import answer
from api.bodies import read_members
from api.documented import Answer, Strict, extra, problems
from api.service import service
from api.submission_schema import BETWEEN_BLANKS
from pipeline.characters import control_character
from pipeline.errors import InputRefused, OmnaiError, Problem
from pipeline.ledger import notes, views
from pipeline.ledger.audit import Fact
from pipeline.ledger.database import Transaction
from pipeline.ledger.errors import FindingUnknown
from pipeline.ledger.jobs import ENDED
from pipeline.ledger.keys import Key
from pipeline.ledger.notes import NOTES_MAX
from pipeline.ledger.texts import TextKey
from pipeline.ledger.views import JobView
from pipeline.publish import publish
from pipeline.records import FindingNote, NoteAction, NoteState

TEXT_CHARS_MAX = 2_000
"""About a page; what is longer belongs into a document of its own."""

FIELDS = ("action", "text")

NUMBER_MAX = 2**31 - 1

_KEY = re.compile("(0|[1-9][0-9]{0,9})[.](0|[1-9][0-9]{0,9})[.](0|[1-9][0-9]{0,9})")

NOTE_BODY: dict[str, Any] = {
    "application/json": {
        "schema": {
            "type": "object",
            "additionalProperties": False,
            "required": ["action"],
            "properties": {
                "action": {"type": "string", "enum": [action.value for action in NoteAction]},
                "text": {
                    "type": ["string", "null"],
                    "description": f"At most {TEXT_CHARS_MAX} characters, {BETWEEN_BLANKS}. "
                    "Needed for `note`, else as you like.",
                },
            },
        },
        "example": {"action": "accept", "text": "Agrees with the filing, page 12."},
    }
}

log = logging.getLogger(__name__)

blueprint = APIBlueprint(
    "notes",
    __name__,
    url_prefix="/v1/jobs",
    abp_tags=[Tag(name="notes", description="What analysts did about findings.")],
)


class FindingPath(Strict):
    job_id: str = Field(description="The job's id.")
    key: str = Field(description="The finding's `key`: epoch, turn and block, as in `1.0.0`.")


class NoteAnswer(Answer):
    """One entry of a finding's log; it never changes."""

    number: int = Field(description="Counted from 1 within the finding.")
    action: NoteAction
    text: str
    author: str = Field(description="Owner of the key that was used, and its label.")
    at: datetime


class NotesAnswer(Answer):
    """A finding's whole log, oldest first."""

    key: str
    state: NoteState = Field(description="By the newest note that is no plain `note`.")
    notes: list[NoteAnswer] = Field(description=f"At most {NOTES_MAX}.")


@blueprint.get("/<job_id>/findings/<key>/notes", responses={200: NotesAnswer, **problems(404)})
def listed(path: FindingPath) -> Response:
    """List a finding's notes"""
    view = views.get(service().database, path.job_id, owner=access.sight())
    found = notes.listed(service().database, view.id, read_key(path.key))
    return answer(
        NotesAnswer(
            key=path.key,
            state=NoteState.after(note.action for note in found),
            notes=[_note(note) for note in found],
        )
    )


@blueprint.post(
    "/<job_id>/findings/<key>/notes",
    responses={201: NoteAnswer, **problems(400, 404, 409, 413, 415, 422)},
    openapi_extensions=extra(headers=(idempotency.HEADER,), body=NOTE_BODY),
)
def write(path: FindingPath) -> Response:
    """Note, accept, reject or mark a finding done

    The finding's own text stays as it is. The brief of a job that has ended is published again.
    """
    view = views.get(service().database, path.job_id, owner=access.sight())
    finding = read_key(path.key)
    members = read_members(FIELDS)
    action, text = checked(
        members["action"].value if "action" in members else None,
        members["text"].value if "text" in members else None,
    )

    def act(outcome: idempotency.Outcome) -> None:
        def settle(within: Transaction, note: FindingNote) -> None:
            place = url_for("notes.listed", job_id=view.id, key=path.key)
            outcome.settle(within, answer(_note(note), 201, {"Location": place}))

        add(view, finding, action=action, text=text, then=settle)

    told = hashlib.sha256(request.get_data()).hexdigest()
    return idempotency.once(f"notes/{view.id}/{path.key}", told, act)


def add(
    view: JobView,
    finding: TextKey,
    *,
    action: NoteAction,
    text: str,
    then: Callable[[Transaction, FindingNote], None] | None = None,
) -> None:
    """Write down as one, then publish; for the page too.

    Raises what `pipeline.ledger.notes.add` raises.
    """

    def record(within: Transaction, note: FindingNote) -> None:
        about: dict[str, Fact] = {
            "finding": key_text(finding),
            "number": note.number,
            "action": action.value,
        }
        access.record("finding_noted", view.id, about, within=within)
        if then is not None:
            then(within, note)

    key = access.caller()
    notes.add(
        service().database,
        view.id,
        finding,
        action=action,
        text=text,
        author=_author(key),
        actor=key.id,
        then=record,
    )
    if view.state in ENDED:
        _publish(view.id)


def checked(action: object, text: object) -> tuple[NoteAction, str]:
    """Raises InputRefused with all that is wrong."""
    found: list[Problem] = []
    actions = [action.value for action in NoteAction]
    if not isinstance(action, str) or action not in actions:
        message = f"give one of {', '.join(actions)}"
        found.append(Problem(code="action_invalid", where="/action", message=message))
    said = (text if isinstance(text, str) else "").strip().replace("\r\n", "\n").replace("\r", "\n")
    if text is not None and not isinstance(text, str):
        found.append(Problem(code="text_type", where="/text", message="give text or nothing"))
    elif len(said) > TEXT_CHARS_MAX:
        message = f"it has {len(said)} characters; at most {TEXT_CHARS_MAX} are accepted"
        found.append(Problem(code="text_too_long", where="/text", message=message))
    elif (control := control_character(said, allowed="\n\t")) is not None:
        message = f"{control}; give plain text; line breaks and tabs are accepted"
        found.append(Problem(code="text_control_character", where="/text", message=message))
    elif action == NoteAction.NOTE.value and not said:
        message = f"a note says something; give 1 to {TEXT_CHARS_MAX} characters"
        found.append(Problem(code="text_missing", where="/text", message=message))
    if found:
        raise InputRefused(*found)
    return NoteAction(action), said


def read_key(key: str) -> TextKey:
    """Raises FindingUnknown for what names no finding that could be."""
    found = _KEY.fullmatch(key)
    if found is None:
        raise FindingUnknown
    epoch, turn, block = (int(part) for part in found.groups())
    if max(epoch, turn, block) > NUMBER_MAX:
        raise FindingUnknown
    return epoch, turn, block


def key_text(finding: TextKey) -> str:
    return ".".join(map(str, finding))


def _author(key: Key) -> str:
    """The label is the holder's own word, the owner is not."""
    return f"{key.owner} ({key.label})" if key.label else key.owner


def _publish(job_id: str) -> None:
    """The note is kept whatever comes of this; a brief that is behind is published by a worker."""
    try:
        publish(service().database, job_id, release=service().release)
    except (OmnaiError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        log.error(
            "A brief could not be published after a note.",
            extra={"action": "publish", "job_id": job_id, "error": type(error).__name__},
        )


def _note(note: FindingNote) -> NoteAnswer:
    return NoteAnswer(
        number=note.number, action=note.action, text=note.text, author=note.author, at=note.at
    )
