"""The tables, as typed models; importing this package knows them all."""

from __future__ import annotations

from pipeline.ledger.schema.api_keys import ApiKeyRow, SignInRow
from pipeline.ledger.schema.briefs import BriefRow
from pipeline.ledger.schema.columns import Base
from pipeline.ledger.schema.epochs import EpochRow, GapRow, UnitRow
from pipeline.ledger.schema.fetches import FetchRow
from pipeline.ledger.schema.jobs import BlobRow, HoldingRow, JobRow, RecordingRow
from pipeline.ledger.schema.notes import FindingNoteRow
from pipeline.ledger.schema.queue import QueueRow, TallyRow
from pipeline.ledger.schema.reruns import RerunRow
from pipeline.ledger.schema.service import AuditRow, IdempotencyRow, WorkerRow
from pipeline.ledger.schema.texts import (
    EvidenceFrameRow,
    EvidenceRow,
    FindingFrameRow,
    FindingHoldingRow,
    FindingRow,
    FrameRow,
)
from pipeline.ledger.schema.uploads import UploadRow

__all__ = [
    "ApiKeyRow",
    "AuditRow",
    "Base",
    "BlobRow",
    "BriefRow",
    "EpochRow",
    "EvidenceFrameRow",
    "EvidenceRow",
    "FetchRow",
    "FindingFrameRow",
    "FindingHoldingRow",
    "FindingNoteRow",
    "FindingRow",
    "FrameRow",
    "GapRow",
    "HoldingRow",
    "IdempotencyRow",
    "JobRow",
    "QueueRow",
    "RecordingRow",
    "RerunRow",
    "SignInRow",
    "TallyRow",
    "UnitRow",
    "UploadRow",
    "WorkerRow",
]
