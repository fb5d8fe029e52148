"""What people did about a finding is shown beside it and never changes what was said."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from pipeline.brief.render_html import to_html
from pipeline.brief.render_markdown import to_markdown
from pipeline.records import NoteAction, NoteState
from tests.pipeline.brief import factories as make
from tests.pipeline.brief.factories import assemble

AT = make.note().at


@pytest.mark.parametrize(
    ("actions", "state"),
    [
        ((), NoteState.OPEN),
        ((NoteAction.NOTE,), NoteState.OPEN),
        ((NoteAction.ACCEPT,), NoteState.ACCEPTED),
        ((NoteAction.ACCEPT, NoteAction.NOTE), NoteState.ACCEPTED),
        ((NoteAction.ACCEPT, NoteAction.REJECT), NoteState.REJECTED),
        ((NoteAction.REJECT, NoteAction.DONE, NoteAction.NOTE), NoteState.DONE),
        ((NoteAction.DONE, NoteAction.ACCEPT), NoteState.ACCEPTED),
    ],
)
def test_the_newest_action_that_decides_gives_the_state(
    actions: tuple[NoteAction, ...], state: NoteState
) -> None:
    notes = tuple(make.note(action, number=at) for at, action in enumerate(actions, start=1))
    (finding,) = assemble(make.dossier(findings=(make.finding(),), notes=notes)).findings
    assert finding.state is state
    assert [note.action for note in finding.notes] == list(actions)
    assert finding.observed == make.finding().evidence


def test_a_note_on_a_repeat_is_shown_with_the_first_in_order_of_time() -> None:
    """A rerun may find an earlier occurrence than the one that was noted on."""
    findings = (make.finding(), make.finding(turn=3, origin=make.origin(9_000, 10_000)))
    notes = (
        make.note(NoteAction.REJECT, at=AT + timedelta(hours=2)),
        make.note(NoteAction.ACCEPT, turn=3, text="Right.", at=AT),
        make.note(turn=3, number=2, text="Seen.", at=AT + timedelta(hours=1)),
    )
    (finding,) = assemble(make.dossier(findings=findings, notes=notes)).findings
    assert [(note.key, note.number) for note in finding.notes] == [
        ("1.3.0", 1),
        ("1.3.0", 2),
        ("1.0.0", 1),
    ]
    assert finding.state is NoteState.REJECTED


def test_notes_on_what_a_newer_epoch_replaced_are_counted() -> None:
    old = make.finding(evidence="old", origin=make.origin(6_000, 7_000))
    base = make.dossier(
        epochs=(make.epoch(), make.epoch(2, start_s=5)),
        units=(*make.units(range(10)), *make.units(range(5, 10), epoch=2)),
        findings=(old,),
        notes=(make.note(), make.note(number=2)),
    )
    made = assemble(base)
    assert made.findings == ()
    assert made.provenance.notes_superseded == 2
    assert "2 notes on them" in to_markdown(made, recording_href=None, frame_href=None)
    assert assemble(replace(base, notes=())).provenance.notes_superseded == 0


def test_every_note_is_written_out_with_its_author_and_time() -> None:
    notes = (make.note(NoteAction.ACCEPT, text="Fits <b>our</b> view.", author="Ada & Bob"),)
    made = assemble(make.dossier(findings=(make.finding(),), notes=notes))
    html = to_html(made, recording_href=None, frame_bytes=lambda _: b"")
    assert "accepted by Ada &amp; Bob, 2026-03-06 07:30:00 UTC" in html
    assert "Fits &lt;b&gt;our&lt;/b&gt; view." in html
    assert ">Accepted<" in html
    markdown = to_markdown(made, recording_href=None, frame_href=None)
    assert "accepted by Ada \\& Bob, 2026-03-06 07:30:00 UTC: Fits \\<b\\>our" in markdown
