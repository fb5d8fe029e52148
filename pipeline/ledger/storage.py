"""Where recordings and frames lie, as the settings say."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.ledger.blobs import BlobStore, FolderBlobs
from pipeline.ledger.bucket import Bucket
from pipeline.ledger.bucket_blobs import BucketBlobs
from pipeline.ledger.frames import BucketFrames, FolderFrames, FrameStore
from pipeline.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Storage:
    """Both stores of one installation."""

    blobs: BlobStore
    frames: FrameStore


def open_storage(settings: Settings) -> Storage:
    """Connects to nothing yet."""
    blobs, frames = settings.data_dir / "blobs", settings.data_dir / "frames"
    if settings.blobs is None:
        return Storage(blobs=FolderBlobs(blobs), frames=FolderFrames(frames))
    name, _, prefix = settings.blobs.removeprefix("s3://").partition("/")
    bucket = Bucket(name=name, prefix=prefix, endpoint=settings.s3_endpoint)
    return Storage(blobs=BucketBlobs(blobs, bucket), frames=BucketFrames(bucket))
