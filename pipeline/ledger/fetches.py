"""Links whose recordings are on their way: who fetches which, how far it is, and how it ends."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from datetime import timedelta

from sqlalchemy import func, insert, or_, select, update
from sqlalchemy.orm import Session

from pipeline.ledger import jobs
from pipeline.ledger.database import Database
from pipeline.ledger.documents import from_document
from pipeline.ledger.errors import FetchLost
from pipeline.ledger.recordings import Recording
from pipeline.ledger.schema import FetchRow, JobRow, UploadRow
from pipeline.link import Link
from pipeline.records import EndReason, JobState, Options


@dataclass(frozen=True, kw_only=True)
class Version:
    """By what an answer is known to be of the same bytes as an earlier one."""

    validator: str
    """A strong entity tag with its quotes, or the date of the last change."""
    total_bytes: int
    place_sha256: str
    """Digest of where it came from."""


@dataclass(frozen=True, kw_only=True)
class LinkedFile:
    """What a job names in a recording's place."""

    link: Link
    filename: str
    """Base name to show; untrusted text."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A link that is this process's to fetch, for as long as it renews its lease."""

    job_id: str
    lease: str
    owner: str
    filename: str
    """Of the recording; untrusted text."""
    options: Options
    """What the job asks for; whether the recording has it, its bytes tell."""
    link: Link = field(repr=False)
    upload_id: str | None
    """Under which earlier attempts left their bytes; none where nothing is kept."""
    received_bytes: int
    """Bytes of it that may be relied on."""
    version: Version | None
    """What those bytes are of."""
    attempts: int
    """This one included."""
    elapsed_s: float
    """Since the first attempt began."""

    def log_context(self) -> dict[str, str | int]:
        """Nothing of the link."""
        return {"job_id": self.job_id, "attempt": self.attempts}


def add(session: Session, job_id: str, link: Link) -> None:
    """Keep the link of a job that is being written in this transaction."""
    session.execute(insert(FetchRow).values(job_id=job_id, host=link.host, url=link.text))


def claim(database: Database, *, lease_s: float) -> Claim | None:
    """Take the link that waits longest; none where all are held, put off or done.

    Of two processes that ask at once, each gets another one. What a killed process held may be
    taken once its lease has ended.
    """
    with database.transaction() as session:
        row = session.scalar(
            select(FetchRow)
            .join(JobRow, JobRow.id == FetchRow.job_id)
            .where(
                FetchRow.ended_at.is_(None),
                JobRow.state == JobState.WAITING_FOR_RECORDING.value,
                or_(FetchRow.leased_until.is_(None), FetchRow.leased_until < func.now()),
                or_(FetchRow.not_before.is_(None), FetchRow.not_before <= func.now()),
            )
            .order_by(FetchRow.created_at, FetchRow.job_id)
            .limit(1)
            .with_for_update(of=FetchRow, skip_locked=True)
        )
        if row is None:
            return None
        lease = str(uuid.uuid4())
        taken = session.execute(
            update(FetchRow)
            .where(FetchRow.job_id == row.job_id)
            .values(
                lease=lease,
                leased_until=func.now() + timedelta(seconds=lease_s),
                attempts=FetchRow.attempts + 1,
                not_before=None,
                begun_at=func.coalesce(FetchRow.begun_at, func.now()),
            )
            .returning(func.extract("epoch", func.now() - FetchRow.begun_at))
            .execution_options(synchronize_session=False)
        )
        return _claim(session, row, lease=lease, elapsed_s=float(taken.scalar_one()))


def renew(database: Database, held: Claim, *, lease_s: float) -> bool:
    """Say that the fetch goes on; false where it is no longer this process's, or not wanted."""
    with database.transaction() as session:
        return _write(session, held, {"leased_until": func.now() + timedelta(seconds=lease_s)})


def bind(database: Database, held: Claim, upload_id: str) -> bool:
    """Begin under another upload, with nothing received; false as for `renew`."""
    with database.transaction() as session:
        return _write(session, held, {"upload_id": upload_id, **_progress(0, None, None)})


def advance(
    database: Database,
    held: Claim,
    *,
    received_bytes: int,
    total_bytes: int | None,
    version: Version | None,
) -> bool:
    """Say how much is synced, and of what; false as for `renew`."""
    with database.transaction() as session:
        return _write(session, held, _progress(received_bytes, total_bytes, version))


def postpone(
    database: Database, held: Claim, *, after_s: float, is_new_start: bool = False
) -> bool:
    """Let go of it until later; what was received stays. False where it was lost before.

    A new start forgets the attempts before: this one got on, so that they led to something.
    """
    values: dict[str, object] = {"not_before": func.now() + timedelta(seconds=after_s)}
    if is_new_start:
        values["attempts"] = 0
    with database.transaction() as session:
        return _write(session, held, _RELEASED | values)


def give_back(database: Database, held: Claim) -> bool:
    """Let go of it at once, as if this attempt had not begun; false where it was lost before."""
    with database.transaction() as session:
        return _write(session, held, {**_RELEASED, "attempts": FetchRow.attempts - 1})


def finish(
    session: Session, held: Claim, recording: Recording, *, refusal: str | None = None
) -> None:
    """Queue the job with its recording, in the transaction that makes it one; fail it with the
    recording for a `refusal`, so that another job can name that.

    Raises FetchLost where the job was canceled or another process has taken over.
    """
    is_moved = jobs.leave_waiting(
        session,
        held.job_id,
        JobState.QUEUED if refusal is None else JobState.FAILED,
        recording_id=recording.id,
        end_reason=None if refusal is None else EndReason.RECORDING_REFUSED,
        end_detail=refusal,
        lease=held.lease,
    )
    if not is_moved:
        raise FetchLost


def fail(database: Database, held: Claim, *, end_reason: EndReason, end_detail: str) -> bool:
    """End the job for good; false where it was lost before."""
    with database.transaction() as session:
        return jobs.leave_waiting(
            session,
            held.job_id,
            JobState.FAILED,
            end_reason=end_reason,
            end_detail=end_detail,
            lease=held.lease,
        )


_RELEASED: dict[str, object] = {"lease": None, "leased_until": None}


def _write(session: Session, held: Claim, values: dict[str, object]) -> bool:
    """A job that has moved on holds no lease."""
    written = session.execute(
        update(FetchRow)
        .where(FetchRow.job_id == held.job_id, FetchRow.lease == held.lease)
        .values(values)
        .returning(FetchRow.job_id)
        .execution_options(synchronize_session=False)
    )
    return written.one_or_none() is not None


def _progress(
    received_bytes: int, total_bytes: int | None, version: Version | None
) -> dict[str, object]:
    return {
        "received_bytes": received_bytes,
        "total_bytes": total_bytes,
        "validator": version and version.validator,
        "place_sha256": version and version.place_sha256,
    }


def _claim(session: Session, row: FetchRow, *, lease: str, elapsed_s: float) -> Claim:
    job = session.execute(
        select(JobRow.owner, JobRow.filename, JobRow.options).where(JobRow.id == row.job_id)
    ).one()
    is_kept = (
        row.upload_id is not None
        and session.scalar(
            select(UploadRow.id).where(UploadRow.id == row.upload_id, UploadRow.closed_at.is_(None))
        )
        is not None
    )
    version = None
    if is_kept and row.validator and row.place_sha256 and row.total_bytes is not None:
        version = Version(
            validator=row.validator,
            total_bytes=row.total_bytes,
            place_sha256=row.place_sha256,
        )
    return Claim(
        job_id=row.job_id,
        lease=lease,
        owner=job.owner,
        filename=job.filename,
        options=from_document(Options, job.options),
        link=Link(host=row.host, target=(row.url or "").removeprefix(f"https://{row.host}")),
        upload_id=row.upload_id if is_kept else None,
        received_bytes=row.received_bytes if is_kept else 0,
        version=version,
        attempts=row.attempts + 1,
        elapsed_s=elapsed_s,
    )
