"""How an upload in parts is told of."""

from __future__ import annotations

from datetime import datetime
from enum import Enum

from pydantic import Field

from api.documented import Answer
from api.errors import title
from pipeline.ledger.uploads import Upload


class UploadState(str, Enum):
    """What has become of an upload."""

    RECEIVING = "receiving"
    CHECKING = "checking"
    KEPT = "kept"
    REFUSED = "refused"


class RefusalAnswer(Answer):
    """Why the whole file became no recording, as its last part was answered."""

    type: str = Field(examples=["about:blank"])
    title: str = Field(examples=["Unprocessable Entity"])
    status: int = Field(examples=[422])
    code: str
    detail: str


class UploadAnswer(Answer):
    """An upload that may come in parts."""

    id: str = Field(examples=["4b0c5e1c-6f3e-4a55-9d0e-6d1b6f5d4f10"])
    filename: str = Field(examples=["q3-call.mp4"])
    state: UploadState = Field(
        description="`receiving` until every byte has come, `checking` until the file has been "
        "looked into, then `kept` or `refused`."
    )
    length_bytes: int
    offset_bytes: int = Field(description="So many bytes are synced to the disk.")
    created_at: datetime
    expires_at: datetime | None = Field(description="When it is given up unless it goes on.")
    recording_id: str | None
    refusal: RefusalAnswer | None


def upload_answer(upload: Upload) -> UploadAnswer:
    refusal = None
    if upload.refusal is not None:
        refusal = RefusalAnswer(
            type="about:blank",
            title=title(422),
            status=422,
            code=upload.refusal.code,
            detail=upload.refusal.message,
        )
    return UploadAnswer(
        id=upload.id,
        filename=upload.filename,
        state=_state(upload),
        length_bytes=upload.length_bytes,
        offset_bytes=upload.offset_bytes,
        created_at=upload.created_at,
        expires_at=upload.expires_at if upload.is_open else None,
        recording_id=upload.recording_id,
        refusal=refusal,
    )


def _state(upload: Upload) -> UploadState:
    if upload.recording_id is not None:
        return UploadState.KEPT
    if upload.refusal is not None:
        return UploadState.REFUSED
    return UploadState.CHECKING if upload.is_whole else UploadState.RECEIVING
