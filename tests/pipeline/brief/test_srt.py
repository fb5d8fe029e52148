"""The findings as SubRip, read back block by block."""

from __future__ import annotations

import itertools
import re

from pipeline.brief.document import Brief
from pipeline.brief.render_json import sha256
from pipeline.brief.render_srt import to_srt
from tests.pipeline.brief import factories as make
from tests.pipeline.brief import hostile_table

TIMES = re.compile(r"(\d\d):(\d\d):(\d\d),(\d{3}) --> (\d\d):(\d\d):(\d\d),(\d{3})")


def read(brief: Brief) -> list[tuple[int, int, list[str]]]:
    """Start, end and lines of each cue; fails on anything that is no numbered cue."""
    written = to_srt(brief).decode()
    assert written.endswith("\r\n\r\n")
    made = []
    for number, block in enumerate(written.removesuffix("\r\n\r\n").split("\r\n\r\n"), start=1):
        head, times, *lines = block.split("\r\n")
        assert head == str(number)
        found = TIMES.fullmatch(times)
        assert found is not None, times
        h, m, s, ms, h2, m2, s2, ms2 = map(int, found.groups())
        start, end = ((h * 60 + m) * 60 + s) * 1000 + ms, ((h2 * 60 + m2) * 60 + s2) * 1000 + ms2
        assert start < end
        assert lines
        assert all(line.strip() for line in lines)
        made.append((start, end, lines))
    return made


def test_one_cue_ends_before_the_next_begins_and_none_is_lost() -> None:
    brief = hostile_table.brief()
    made = read(brief)
    assert all(one[1] <= other[0] for one, other in itertools.pairwise(made))
    # Findings a second apart share a cue, those further apart have their own.
    shown = [line for _, _, lines in made for line in lines]
    refs = {found.group(1) for line in shown if (found := re.match(r"(F\d+) ·", line))}
    assert refs == {finding.ref for finding in brief.findings}


def test_no_hostile_text_holds_a_tag_an_override_an_entity_or_a_time() -> None:
    lines = [line for _, _, lines in read(hostile_table.brief()) for line in lines]
    for line in lines:
        assert not re.search(r"<[A-Za-z/!?]|\{[\\A-Za-z]|&[#A-Za-z]|-->", line), line


def test_what_is_no_tag_stays_as_it_was_said() -> None:
    finding = make.finding(evidence="Margin < 5%, x<4, a & b, {4}, 3->4, R&amp;D.")
    lines = read(make.assemble(make.dossier(findings=(finding,))))[-1][2]
    assert "Margin < 5%, x<4, a & b, {4}, 3->4, R& amp;D." in lines


def test_the_first_cue_says_what_the_file_is() -> None:
    brief = make.assemble(make.dossier())
    start, end, lines = read(brief)[0]
    assert (start, end) == (0, 6_000)
    assert lines[:2] == ["Brief: Investor day", "Complete · 0 findings"]
    assert lines[-2:] == ["No finding is not evidence of absence.", f"SHA-256 {sha256(brief)}"]


def test_findings_said_at_one_moment_are_shown_together() -> None:
    findings = (
        make.finding(origin=make.origin(30_000, 31_000)),
        make.finding("h2", turn=1, origin=make.origin(30_500, 31_000)),
    )
    made = read(make.assemble(make.dossier(findings=findings)))
    assert len(made) == 2
    assert [line[:2] for line in made[1][2] if line[0] == "F"] == ["F1", "F2"]
