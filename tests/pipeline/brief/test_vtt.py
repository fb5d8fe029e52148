"""The findings as WebVTT, read by the browser that will play them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from pipeline.brief.cues import LINE_CELLS_MAX, SHOWN_MAX_MS, SHOWN_MIN_MS, cues
from pipeline.brief.document import Brief
from pipeline.brief.render_json import sha256
from pipeline.brief.render_vtt import to_vtt
from pipeline.records import NoteAction
from tests.browser import chromium
from tests.pipeline.brief import factories as make
from tests.pipeline.brief import hostile_table

READ = """
async text => {
  const video = document.createElement("video");
  const track = document.createElement("track");
  track.src = URL.createObjectURL(new Blob([text], { type: "text/vtt" }));
  video.append(track);
  document.body.append(video);
  track.track.mode = "hidden";
  await new Promise((done, failed) => { track.onload = done; track.onerror = failed; });
  return [...track.track.cues].map(cue => {
    const shown = document.createElement("div");
    shown.append(cue.getCueAsHTML());
    return {
      id: cue.id, start: cue.startTime, end: cue.endTime,
      text: shown.textContent, elements: shown.querySelectorAll("*").length,
    };
  });
}
"""


@pytest.fixture(scope="module")
def page() -> Iterator[Any]:
    with chromium() as browser:
        yield browser.new_page()


def test_a_browser_reads_every_hostile_text_as_that_text_and_nothing_else(page: Any) -> None:
    brief = hostile_table.brief()
    # Of cues that begin together the browser puts the longest first.
    read = sorted(page.evaluate(READ, to_vtt(brief).decode()), key=lambda seen: seen["id"])
    made = sorted(cues(brief), key=lambda cue: cue.name)
    assert len(read) == len(made) == 1 + len(brief.findings)
    for seen, cue in zip(read, made, strict=True):
        assert seen["id"] == cue.name
        assert seen["text"] == "\n".join(cue.lines)
        assert seen["elements"] == 0
        assert (seen["start"], seen["end"]) == (cue.start_ms / 1000, cue.end_ms / 1000)


def at(start_ms: int, end_ms: int, **overrides: Any) -> Brief:
    finding = make.finding(origin=make.origin(start_ms, end_ms), **overrides)
    return make.assemble(make.dossier(findings=(finding,)))


@pytest.mark.parametrize(
    ("start_ms", "end_ms", "shown_ms"),
    [
        # From the lead before it was said to the end of what was said.
        (20_000, 25_000, (15_000, 25_000)),
        # Long enough to be read, never longer than thirty seconds.
        (0, 200, (0, 4_000)),
        (20_000, 90_000, (15_000, 45_000)),
    ],
)
def test_a_cue_is_shown_while_the_finding_is_played(
    start_ms: int, end_ms: int, shown_ms: tuple[int, int]
) -> None:
    cue = cues(at(start_ms, end_ms, evidence="Up 12%.", implication="Good."))[1]
    assert (cue.start_ms, cue.end_ms) == shown_ms
    assert SHOWN_MIN_MS <= cue.end_ms - cue.start_ms <= SHOWN_MAX_MS


def test_cues_are_on_the_clock_of_a_player_of_a_file_that_starts_late() -> None:
    recording = replace(make.dossier().recording, probe=make.probe(origin_ms=5_000))
    dossier = make.dossier(findings=(make.finding(),), recording=recording)
    assert b"\n00:00:08.000 --> " in to_vtt(make.assemble(dossier))


def test_cues_come_by_time_and_a_repeat_has_its_own() -> None:
    written = to_vtt(make.assemble(make.full())).decode()
    times = re.findall(r"^(\d\d:\d\d:\d\d\.\d{3}) --> ", written, re.MULTILINE)
    assert times == sorted(times)
    assert re.findall(r"^(\S+)\n\d\d:", written, re.MULTILINE) == ["brief", "F1", "F2", "F1-2"]
    assert "said again at 0:09–0:10" in written


def test_lines_are_no_wider_than_a_small_player_and_what_is_left_out_leaves_an_ellipsis() -> None:
    for text in ("word " * 200, "W" * 900, "株式会社の売上高は増加。" * 50):
        cue = cues(at(0, 1_000, evidence=text, implication=text))[1]
        assert len(cue.lines) <= 2 + 4 + 3
        assert [line[-1] for line in cue.lines].count("…") == 2
        wide = [len(line) + len(re.findall("[\u3000-\u9fff]", line)) for line in cue.lines]
        assert max(wide) <= LINE_CELLS_MAX + 1
    short = cues(at(0, 1_000, evidence="Orders rose."))[1]
    assert short.lines[1:] == ("Orders rose.", "Implication: Revenue may rise next quarter.")


def test_the_file_says_first_what_it_is_and_that_silence_is_no_evidence() -> None:
    brief = make.assemble(make.dossier())
    written = to_vtt(brief).decode()
    assert written.startswith("WEBVTT\n\nNOTE Investor day\n\nNOTE SHA-256 of the brief: ")
    assert sha256(brief) in written
    assert "NOTE The engine completed no finding in the seconds that were analysed." in written
    assert "\nNo finding is not evidence of absence.\n" in written


def test_a_finding_that_was_rejected_says_so() -> None:
    dossier = make.dossier(
        findings=(make.finding(),), notes=(make.note(NoteAction.REJECT, text="Wrong quarter."),)
    )
    assert cues(make.assemble(dossier))[1].lines[0].startswith("F1 · Rejected · Company h1")
