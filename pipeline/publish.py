"""A job's brief from its rows, for whoever ends a job: the loop, the reaper, a cancel, a note."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import BinaryIO

from pipeline.brief.assemble import assemble, compared
from pipeline.brief.document import Brief
from pipeline.brief.evidence_zip import KeptRecording, frame_name, write_zip
from pipeline.brief.past import PastBrief, read_past
from pipeline.brief.render_csv import to_csv
from pipeline.brief.render_docx import to_docx
from pipeline.brief.render_html import to_html
from pipeline.brief.render_json import content_sha256, sha256, to_json
from pipeline.brief.render_markdown import to_markdown
from pipeline.brief.render_pdf import to_pdf
from pipeline.brief.render_srt import to_srt
from pipeline.brief.render_vtt import to_vtt
from pipeline.brief.render_xlsx import to_xlsx
from pipeline.files import write_whole
from pipeline.findings.duplicates import likeness
from pipeline.ledger import briefs, dossiers
from pipeline.ledger.database import Database
from pipeline.ledger.frames import FrameStore
from pipeline.records import Dossier

FRAMES_FOLDER = "frames"


@dataclass(frozen=True, kw_only=True)
class Published:
    """A brief that has been stored."""

    brief: Brief
    revision: int
    sha256: str


class BriefFormat(str, Enum):
    """The forms that a brief is written in."""

    JSON = "json"
    MARKDOWN = "md"
    HTML = "html"
    PDF = "pdf"
    DOCX = "docx"
    CSV = "csv"
    """The findings as a table."""
    XLSX = "xlsx"
    VTT = "vtt"
    """The findings as subtitles of the recording."""
    SRT = "srt"
    ZIP = "zip"
    """All other forms with the frames and, where it can be, the recording."""


@dataclass(frozen=True, kw_only=True)
class Rendered:
    """A brief in one form, with the digest that every form of it prints."""

    content: bytes
    sha256: str


def assembled(
    database: Database, job_id: str, *, release: str, against: PastBrief | None = None
) -> Brief:
    """The brief of the job's rows as they stand; stores nothing.

    Its changes are counted against the newest stored revision that says something else, so that
    the same rows give the same bytes however often they are published. Raises JobUnknown.
    """
    dossier = dossiers.load(database, job_id)
    return _assembled(database, dossier, release=release, against=against)


def past_brief(database: Database, job_id: str) -> PastBrief | None:
    """The newest stored brief, to count changes against; none where none can be read."""
    return _past(briefs.latest(database, job_id))


def _assembled(
    database: Database, dossier: Dossier, *, release: str, against: PastBrief | None = None
) -> Brief:
    brief = assemble(dossier, release=release, likeness=likeness)
    previous = _past(
        briefs.newest_other(database, dossier.job_id, content_sha256=content_sha256(brief))
    )
    return compared(brief, dossier, likeness=likeness, previous=previous, against=against)


def _past(stored: briefs.StoredBrief | None) -> PastBrief | None:
    if stored is None:
        return None
    return read_past(stored.document, revision=stored.revision, job_id=stored.job_id)


def publish(database: Database, job_id: str, *, release: str) -> Published:
    """Assemble the brief from the job's rows as they stand and store it as the newest revision."""
    dossier = dossiers.load(database, job_id)
    brief = _assembled(database, dossier, release=release)
    digest = sha256(brief)
    revision = briefs.store(
        database,
        job_id,
        status=brief.status.kind.value,
        document=to_json(brief),
        canonical_sha256=digest,
        release=release,
        content_sha256=content_sha256(brief),
        note_count=len(dossier.notes),
    )
    return Published(brief=brief, revision=revision, sha256=digest)


def rendered(
    database: Database,
    frames: FrameStore,
    job_id: str,
    form: BriefFormat,
    *,
    release: str,
    recording_href: str | None,
    frame_href: Callable[[str], str],
    against: PastBrief | None = None,
) -> Rendered:
    """The brief of the job's rows as they stand, also while it runs; stores nothing.

    `recording_href` has a host where the form is a file that leaves the browser. Raises
    JobUnknown, also for a job that still waits for its recording, PagesNotSet, and ValueError for
    the ZIP, which `archived` writes.
    """
    brief = assembled(database, job_id, release=release, against=against)
    content = _content(brief, frames, form, recording_href=recording_href, frame_href=frame_href)
    return Rendered(content=content, sha256=sha256(brief))


def archived(
    database: Database,
    frames: FrameStore,
    job_id: str,
    stream: BinaryIO,
    *,
    release: str,
    recording: KeptRecording | None,
    against: PastBrief | None = None,
) -> str:
    """Write the evidence ZIP to a seekable stream, and return the brief's digest.

    `recording` is none where its bytes are not stored. Raises as `rendered` does.
    """
    brief = assembled(database, job_id, release=release, against=against)
    write_zip(
        brief,
        stream,
        frames=frame_names(brief),
        frame_bytes=frames.read,
        recording=recording,
    )
    return sha256(brief)


def _content(
    brief: Brief,
    frames: FrameStore,
    form: BriefFormat,
    *,
    recording_href: str | None,
    frame_href: Callable[[str], str],
) -> bytes:
    match form:
        case BriefFormat.JSON:
            return to_json(brief)
        case BriefFormat.MARKDOWN:
            text = to_markdown(brief, recording_href=recording_href, frame_href=frame_href)
            return text.encode()
        case BriefFormat.HTML:
            page = to_html(brief, recording_href=recording_href, frame_bytes=frames.read)
            return page.encode()
        case BriefFormat.PDF:
            return to_pdf(brief, recording_href=recording_href, frame_bytes=frames.read)
        case BriefFormat.DOCX:
            return to_docx(brief, recording_href=recording_href, frame_bytes=frames.read)
        case BriefFormat.CSV:
            return to_csv(brief)
        case BriefFormat.XLSX:
            return to_xlsx(brief)
        case BriefFormat.VTT:
            return to_vtt(brief)
        case BriefFormat.SRT:
            return to_srt(brief)
        case BriefFormat.ZIP:
            raise ValueError("the ZIP is written to a stream; use `archived`")


def write_folder(brief: Brief, frames: FrameStore, folder: Path, *, recording_href: str) -> None:
    """Write the brief in every form but the ZIP, and the frames it shows; each appears whole.

    `recording_href` is where the recording lies, as a link from `folder`. Lets OSError through.
    """
    shown = frame_names(brief)
    if shown:
        (folder / FRAMES_FOLDER).mkdir(parents=True, exist_ok=True)
    for name in shown:
        write_whole(folder / frame_name(name), frames.read(name))
    for form in BriefFormat:
        if form is BriefFormat.ZIP:
            continue
        content = _content(
            brief, frames, form, recording_href=recording_href, frame_href=frame_name
        )
        write_whole(folder / f"brief.{form.value}", content)


def frame_names(brief: Brief) -> tuple[str, ...]:
    """Digests of the frames a brief shows, each once, in order."""
    sources = [finding.source for finding in brief.findings]
    sources += [evidence.source for evidence in brief.evidence]
    return tuple(dict.fromkeys(frame.sha256 for source in sources for frame in source.frames))
