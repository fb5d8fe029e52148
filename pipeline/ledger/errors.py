"""What can go wrong with the ledger; no message carries a stored value or an address."""

from __future__ import annotations

from pipeline.errors import OmnaiError


class DatabaseUnavailable(OmnaiError):
    """The database cannot be reached or did not answer in time; nothing is known to be written."""

    code = "database_unavailable"


class DatabaseUnsuitable(OmnaiError):
    """The database cannot hold OmnAI's tables."""

    code = "database_unsuitable"


class SchemaOutdated(OmnaiError):
    """The database does not have this release's tables; run `omnai db upgrade`."""

    code = "schema_outdated"


class StorageFull(OmnaiError):
    """There is no room left to write; nothing was written."""

    code = "storage_full"


class DatabaseFull(StorageFull, DatabaseUnavailable):
    """The database's storage is full; nothing was written.

    It still answers what only reads, and takes writes again once there is room: whoever waits for a
    database that is away waits for this too.
    """

    code = "storage_full"

    def __init__(self) -> None:
        super().__init__("the database's storage is full; nothing was written")


class StorageLow(OmnaiError):
    """Too little room is left on the disk of the data folder; nothing was taken in."""

    code = "storage_low"

    def __init__(self, *, free_bytes: int, free_bytes_min: int) -> None:
        self.free_bytes = free_bytes
        self.free_bytes_min = free_bytes_min
        super().__init__(
            f"too little room is left for this: {free_bytes} bytes are free, and"
            f" {free_bytes_min} have to stay so; try again once there is room"
        )


class LedgerRefused(OmnaiError):
    """The database refused a write; nothing was written."""

    code = "ledger_refused"

    def __init__(self, *, constraint: str | None, sqlstate: str | None) -> None:
        self.constraint = constraint
        self.sqlstate = sqlstate
        what = f"constraint {constraint}" if constraint else f"SQLSTATE {sqlstate or 'unknown'}"
        super().__init__(f"the database refused a write and kept nothing of it: {what}")


class SlotBusy(OmnaiError):
    """Another epoch holds this worker slot; it must be released first."""

    code = "slot_busy"


class HostUnknown(OmnaiError):
    """No worker's slot and no running epoch is of a host of this name; see `omnai workers`."""

    code = "host_unknown"


class HostAlive(OmnaiError):
    """A worker host that was heard of lately; only its own processes may free its slots."""

    code = "host_alive"

    def __init__(self, *, silent_s: float, silent_s_min: float) -> None:
        super().__init__(
            f"this host was heard of {silent_s:.0f} s ago; only one that has been silent for"
            f" {silent_s_min:.0f} s can be forgotten, and one that runs frees its slots itself"
        )


class JobUnknown(OmnaiError):
    """There is no such job."""

    code = "job_unknown"


class EpochUnknown(OmnaiError):
    """There is no such epoch."""

    code = "epoch_unknown"


class FindingUnknown(OmnaiError):
    """There is no such finding."""

    code = "finding_unknown"


class NotesFull(OmnaiError):
    """This finding has as many notes as it may have; what is written there stays."""

    code = "notes_full"


class RecordingUnknown(OmnaiError):
    """There is no such recording."""

    code = "recording_unknown"


class RecordingNotStored(OmnaiError):
    """OmnAI holds no copy of this recording's bytes; it has to be uploaded first."""

    code = "recording_not_stored"


class DeletionRefused(OmnaiError):
    """This may not be deleted now; nothing was changed."""

    code = "deletion_refused"

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)


class FetchLost(OmnaiError):
    """The job no longer waits for this fetch: it was canceled, or another process took over."""

    code = "fetch_lost"


class UploadUnknown(OmnaiError):
    """There is no such upload, or it was abandoned."""

    code = "upload_unknown"


class UploadGone(OmnaiError):
    """This upload was ended, refused or given up; begin another one."""

    code = "upload_gone"


class BlobMissing(OmnaiError):
    """There are no stored bytes of this name."""

    code = "blob_missing"


class BlobDamaged(OmnaiError):
    """Stored bytes are not those their name promises; uploading the file again mends them."""

    code = "blob_damaged"


class BlobsUnavailable(OmnaiError):
    """The storage for recordings and frames did not answer as it should."""

    code = "blobs_unavailable"


class KeyUnknown(OmnaiError):
    """There is no such key, or it is no longer valid."""

    code = "key_unknown"


class CursorRefused(OmnaiError):
    """Not a cursor of this list; one from an earlier answer, or none, would be accepted."""

    code = "cursor_refused"


class RerunRefused(OmnaiError):
    """The job cannot be rerun in this way; nothing was changed."""

    code = "rerun_refused"

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)


class IdempotencyConflict(OmnaiError):
    """This idempotency key came with another request; a new key would be accepted."""

    code = "idempotency_conflict"


class IdempotencyInFlight(OmnaiError):
    """The first request with this idempotency key has no answer yet; ask again later."""

    code = "idempotency_in_flight"


class EdgeRefused(OmnaiError):
    """A job may not move between these states."""

    code = "edge_refused"

    def __init__(self, source: str, target: str, accepted: tuple[str, ...]) -> None:
        self.source = source
        self.target = target
        others = ", ".join(accepted) or "nothing"
        super().__init__(f"a {source} job cannot become {target}; it may become: {others}")


class UnitConflict(OmnaiError):
    """A unit contradicts the ones already recorded."""

    code = "unit_conflict"


class TextConflict(OmnaiError):
    """A piece of evidence would take the place of a finding."""

    code = "text_conflict"


class FrameMissing(OmnaiError):
    """There is no kept frame of this name."""

    code = "frame_missing"


class FrameDamaged(OmnaiError):
    """A frame's bytes are not those that its name promises."""

    code = "frame_damaged"
