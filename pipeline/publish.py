"""A job's brief from its rows, for whoever ends a job: the loop, the reaper, a cancel, a note."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from pipeline.brief.assemble import assemble
from pipeline.brief.document import Brief
from pipeline.brief.render_html import to_html
from pipeline.brief.render_json import sha256, to_json
from pipeline.brief.render_markdown import to_markdown
from pipeline.files import write_whole
from pipeline.ledger import briefs, dossiers
from pipeline.ledger.database import Database
from pipeline.ledger.frames import FrameStore

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


@dataclass(frozen=True, kw_only=True)
class Rendered:
    """A brief in one form, with the digest that every form of it prints."""

    content: bytes
    sha256: str


def publish(database: Database, job_id: str, *, release: str) -> Published:
    """Assemble the brief from the job's rows as they stand and store it as the newest revision."""
    brief = assemble(dossiers.load(database, job_id), release=release)
    digest = sha256(brief)
    revision = briefs.store(
        database,
        job_id,
        status=brief.status.kind.value,
        document=to_json(brief),
        canonical_sha256=digest,
        release=release,
    )
    return Published(brief=brief, revision=revision, sha256=digest)


def rendered(
    database: Database,
    frames: FrameStore,
    job_id: str,
    form: BriefFormat,
    *,
    release: str,
    recording_href: str,
    frame_href: Callable[[str], str],
) -> Rendered:
    """The brief of the job's rows as they stand, also while it runs; stores nothing.

    Raises JobUnknown, also for a job that still waits for its recording.
    """
    brief = assemble(dossiers.load(database, job_id), release=release)
    match form:
        case BriefFormat.JSON:
            content = to_json(brief)
        case BriefFormat.MARKDOWN:
            content = to_markdown(
                brief, recording_href=recording_href, frame_href=frame_href
            ).encode()
        case BriefFormat.HTML:
            content = to_html(
                brief, recording_href=recording_href, frame_bytes=frames.read
            ).encode()
    return Rendered(content=content, sha256=sha256(brief))


def write_folder(brief: Brief, frames: FrameStore, folder: Path, *, recording_href: str) -> None:
    """Write `brief.json`, `brief.md`, `brief.html` and the frames they show; each appears whole.

    `recording_href` is where the recording lies, as a link from `folder`. Lets OSError through.
    """
    shown = frame_names(brief)
    if shown:
        (folder / FRAMES_FOLDER).mkdir(parents=True, exist_ok=True)
    for name in shown:
        write_whole(folder / FRAMES_FOLDER / f"{name}.jpg", frames.read(name))
    write_whole(folder / "brief.json", to_json(brief))
    markdown = to_markdown(
        brief,
        recording_href=recording_href,
        frame_href=lambda name: f"{FRAMES_FOLDER}/{name}.jpg",
    )
    write_whole(folder / "brief.md", markdown.encode())
    html = to_html(brief, recording_href=recording_href, frame_bytes=frames.read)
    write_whole(folder / "brief.html", html.encode())


def frame_names(brief: Brief) -> tuple[str, ...]:
    """Digests of the frames a brief shows, each once, in order."""
    sources = [finding.source for finding in brief.findings]
    sources += [evidence.source for evidence in brief.evidence]
    return tuple(dict.fromkeys(frame.sha256 for source in sources for frame in source.frames))
