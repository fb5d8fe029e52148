"""Objects of one S3-compatible bucket; the only home of boto3."""

from __future__ import annotations

import base64
import hashlib
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.ledger.blobs import PIECE_BYTES
from pipeline.ledger.errors import BlobDamaged, BlobMissing, BlobsUnavailable

if TYPE_CHECKING:
    from botocore.exceptions import ClientError

CONNECT_S = 5.0
READ_S = 60.0
"""Between two pieces of an answer; a slow disk behind the service takes seconds."""
ATTEMPTS = 4
"""Of one call, with growing pauses between them (botocore's "standard" mode)."""
RESUMES = 4
"""Of one object's bytes, without a single one having come in between."""

PART_BYTES = 16 << 20
"""Of an upload in parts, and up to where it is sent as one."""
PARTS_MAX = 10_000
"""As S3 allows (docs: "Amazon S3 multipart upload limits")."""
UPLOADS_AT_ONCE = 4

_CODE = re.compile(r"[A-Za-z0-9.]{1,60}")
_MD5 = re.compile(r"[0-9a-f]{32}(-[0-9]+)?")


@dataclass(frozen=True, kw_only=True)
class Fingerprint:
    """What a file's bytes must be found to be, wherever they went."""

    sha256: str
    size_bytes: int
    part_bytes: int
    sha256_of_parts: str
    """As S3 makes it of an upload in parts: the digest of its parts' digests, in base 64."""


@dataclass(frozen=True, kw_only=True)
class Listed:
    """One object as a list tells of it."""

    key: str
    size_bytes: int
    modified_at: float
    """Seconds of the epoch, by the service's clock."""


def fingerprint(path: Path) -> Fingerprint:
    """Reads the file once. Lets OSError through."""
    size_bytes = path.stat().st_size
    part_bytes = PART_BYTES
    while part_bytes * PARTS_MAX < size_bytes:
        part_bytes *= 2
    whole, parts = hashlib.sha256(), hashlib.sha256()
    for part in _parts(path, part_bytes):
        digest = hashlib.sha256()
        for piece in part:
            whole.update(piece)
            digest.update(piece)
        parts.update(digest.digest())
    return Fingerprint(
        sha256=whole.hexdigest(),
        size_bytes=size_bytes,
        part_bytes=part_bytes,
        sha256_of_parts=base64.b64encode(parts.digest()).decode(),
    )


class Bucket:
    """Keys under one prefix; safe to use from several threads, connects when first asked.

    Credentials, region and profile come from where boto3 itself looks for them. Raises BlobMissing
    for what is not there, BlobDamaged for other bytes than were sent, BlobsUnavailable where the
    service cannot be reached, refuses, or has no such bucket. Nothing it says holds an address or a
    credential.
    """

    def __init__(self, *, name: str, prefix: str, endpoint: str | None) -> None:
        self._name = name
        self._prefix = prefix
        self._endpoint = endpoint
        self._lock = threading.Lock()
        self._made: Any = None

    def upload(self, key: str, path: Path, of: Fingerprint) -> None:
        """Return once the object is whole and has been seen to be; before, it is not there at all.

        Lets OSError of the file through.
        """
        from boto3.exceptions import S3UploadFailedError
        from boto3.s3.transfer import TransferConfig

        is_whole = of.size_bytes < of.part_bytes
        with self._translated():
            try:
                self._client.upload_file(
                    str(path),
                    self._name,
                    self._key(key),
                    ExtraArgs={"ChecksumSHA256": _base64(of.sha256)}
                    if is_whole
                    else {"ChecksumAlgorithm": "SHA256"},
                    Config=TransferConfig(
                        multipart_threshold=of.part_bytes,
                        multipart_chunksize=of.part_bytes,
                        max_concurrency=UPLOADS_AT_ONCE,
                        preferred_transfer_client="classic",
                    ),
                )
            except S3UploadFailedError as error:
                raise (error.__context__ or error) from error
        if not self.holds(key, path, of):
            raise BlobDamaged("the storage has other bytes than were sent")

    def holds(self, key: str, path: Path, of: Fingerprint) -> bool:
        """Whether the object is the file: by size, and by the digest that the service has of it.

        A service that keeps no SHA-256 is asked for its ETag, which is an MD5 where it looks like
        one and the object is not encrypted under a key of its own; where it is none, the size alone
        tells.
        """
        try:
            with self._translated():
                head = self._client.head_object(
                    Bucket=self._name, Key=self._key(key), ChecksumMode="ENABLED"
                )
        except BlobMissing:
            return False
        if head["ContentLength"] != of.size_bytes:
            return False
        told = head.get("ChecksumSHA256")
        if told is not None:
            return told.partition("-")[0] in (_base64(of.sha256), of.sha256_of_parts)
        tag = head["ETag"].strip('"')
        is_encrypted = head.get("ServerSideEncryption", "AES256") != "AES256"
        if is_encrypted or "SSECustomerAlgorithm" in head or _MD5.fullmatch(tag) is None:
            return True
        return tag in _md5s(path, of.part_bytes)

    def put(self, key: str, content: bytes, *, sha256: str) -> None:
        """For what is small; whole or not there."""
        with self._translated():
            self._client.put_object(
                Bucket=self._name,
                Key=self._key(key),
                Body=content,
                ChecksumSHA256=_base64(sha256),
            )

    def size(self, key: str) -> int:
        with self._translated():
            head = self._client.head_object(Bucket=self._name, Key=self._key(key))
        return int(head["ContentLength"])

    def open(self, key: str, *, start: int = 0, end: int | None = None) -> ObjectBytes:
        """From `start` up to before `end`, or all of it; asks at once, reads when it is taken."""
        return ObjectBytes(self, key, start=start, end=end)

    def listed(self, prefix: str = "") -> Iterator[Listed]:
        """What lies under a prefix, in order of the keys, asked for as it is taken."""
        wanted = {"Bucket": self._name, "Prefix": self._key(prefix)}
        following: dict[str, str] = {}
        while True:
            with self._translated():
                page = self._client.list_objects_v2(**wanted, **following)
            for found in page.get("Contents", ()):
                yield Listed(
                    key=found["Key"][len(self._key("")) :],
                    size_bytes=found["Size"],
                    modified_at=found["LastModified"].timestamp(),
                )
            if not page.get("IsTruncated"):
                return
            following = {"ContinuationToken": page["NextContinuationToken"]}

    def modified_at(self, key: str) -> float:
        """Seconds of the epoch, by the service's clock."""
        with self._translated():
            head = self._client.head_object(Bucket=self._name, Key=self._key(key))
        return float(head["LastModified"].timestamp())

    def copy(self, key: str, target: str) -> None:
        """Within the service, whole or not there; of what is smaller than 5 GB."""
        with self._translated():
            self._client.copy_object(
                Bucket=self._name,
                Key=self._key(target),
                CopySource={"Bucket": self._name, "Key": self._key(key)},
            )

    def remove(self, key: str) -> None:
        """Idempotent."""
        with self._translated():
            self._client.delete_object(Bucket=self._name, Key=self._key(key))

    def _get(self, key: str, *, start: int, end: int | None, tag: str | None) -> Any:
        asked: dict[str, str] = {}
        if start or end is not None:
            asked["Range"] = f"bytes={start}-{'' if end is None else end - 1}"
        if tag is not None:
            asked["IfMatch"] = tag
        with self._translated():
            return self._client.get_object(Bucket=self._name, Key=self._key(key), **asked)

    def _key(self, key: str) -> str:
        return f"{self._prefix}/{key}" if self._prefix else key

    @property
    def _client(self) -> Any:
        with self._lock:
            if self._made is None:
                self._made = _connected(self._endpoint)
        return self._made

    @contextmanager
    def _translated(self) -> Iterator[None]:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            yield
        except ClientError as error:
            raise self._of_service(error) from error
        except BotoCoreError as error:
            raise BlobsUnavailable(
                f"the storage for recordings cannot be reached ({type(error).__name__})"
            ) from error

    def _of_service(self, error: ClientError) -> Exception:
        told = error.response.get("Error", {}).get("Code", "")
        code = told if _CODE.fullmatch(told) else "an error without a code"
        # A question about an object alone gets no more than 404, whichever of the two is missing.
        if code == "NoSuchKey" or (code in ("404", "NotFound") and self._is_there()):
            return BlobMissing()
        if code in ("InvalidRange", "PreconditionFailed"):
            return BlobDamaged("the storage has other bytes than it had")
        return BlobsUnavailable(f"the storage for recordings refused a request ({code})")

    def _is_there(self) -> bool:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            self._client.head_bucket(Bucket=self._name)
        except (ClientError, BotoCoreError):
            return False
        return True


class ObjectBytes(Iterator[bytes]):
    """An object's bytes as they come; a connection that breaks is made again from where it broke.

    Raises BlobDamaged where the object is shorter than was asked for, or becomes another.
    """

    def __init__(self, bucket: Bucket, key: str, *, start: int, end: int | None) -> None:
        self._bucket = bucket
        self._key = key
        self._at = start
        self._resumes = 0
        answer = bucket._get(key, start=start, end=end, tag=None)
        self._tag = answer["ETag"]
        self._body = answer["Body"]
        size_bytes = _size(answer)
        self.end = size_bytes if end is None else end
        """Where it ends: the object's size, where all of it was asked for."""
        if size_bytes < self.end:
            self.close()
            raise BlobDamaged(f"{size_bytes} bytes are left of at least {end}")

    def __next__(self) -> bytes:
        from botocore.exceptions import BotoCoreError

        while self._at < self.end:
            try:
                piece = self._body.read(min(PIECE_BYTES, self.end - self._at))
            except BotoCoreError:
                piece = b""
            if piece:
                self._at += len(piece)
                self._resumes = 0
                return bytes(piece)
            self._resume()
        self.close()
        raise StopIteration

    def close(self) -> None:
        self._body.close()

    def _resume(self) -> None:
        self.close()
        if self._resumes == RESUMES:
            raise BlobsUnavailable("the storage for recordings broke off again and again")
        self._resumes += 1
        answer = self._bucket._get(self._key, start=self._at, end=self.end, tag=self._tag)
        self._body = answer["Body"]


def _connected(endpoint: str | None) -> Any:
    from boto3.session import Session
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError

    try:
        # A session of its own: boto3's shared one is not for several threads.
        return Session().client(
            "s3",
            endpoint_url=endpoint,
            config=Config(
                connect_timeout=CONNECT_S,
                read_timeout=READ_S,
                retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
                s3={"addressing_style": "auto" if endpoint is None else "path"},
                # Ours are given with each upload; others' services know no CRC trailers.
                request_checksum_calculation="when_required",
                response_checksum_validation="when_required",
            ),
        )
    except BotoCoreError as error:
        raise BlobsUnavailable(
            f"the storage for recordings is not set up ({type(error).__name__})"
        ) from error


def _size(answer: Any) -> int:
    """Of the whole object, of which this may be a part."""
    _, _, total = answer.get("ContentRange", "").rpartition("/")
    return int(total) if total.isdecimal() else int(answer["ContentLength"])


def _parts(path: Path, part_bytes: int) -> Iterator[Iterator[bytes]]:
    """Each to be read to its end before the next."""
    size_bytes = path.stat().st_size
    with path.open("rb") as file:
        for start in range(0, size_bytes, part_bytes):
            length = min(part_bytes, size_bytes - start)
            yield (file.read(min(PIECE_BYTES, length - at)) for at in range(0, length, PIECE_BYTES))


def _md5s(path: Path, part_bytes: int) -> tuple[str, str]:
    """The ETags that the file has as one object, and as an upload in parts."""
    whole, parts = _md5(), _md5()
    count = 0
    for part in _parts(path, part_bytes):
        digest = _md5()
        for piece in part:
            whole.update(piece)
            digest.update(piece)
        parts.update(digest.digest())
        count += 1
    return whole.hexdigest(), f"{parts.hexdigest()}-{count}"


def _md5() -> Any:
    return hashlib.md5(usedforsecurity=False)


def _base64(sha256: str) -> str:
    return base64.b64encode(bytes.fromhex(sha256)).decode()
