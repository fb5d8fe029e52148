"""Jobs in the queue, and what a worker would do to them, each part of which a test may set."""

from __future__ import annotations

from typing import Any

from pipeline.ledger import claims, epochs, jobs, recordings, submissions
from pipeline.ledger.claims import Claimed
from pipeline.ledger.database import Database
from pipeline.ledger.epochs import EpochKey
from pipeline.ledger.recordings import Recording
from pipeline.records import EndReason, JobState
from tests.pipeline.ledger.factories import (
    HOLDINGS,
    digest,
    make_engine,
    make_probe,
    make_request,
)


def upload(database: Database, owner: str = "ana", **given: Any) -> Recording:
    upload_id = recordings.begin_upload(database, owner=owner, filename="call.mp4")
    return recordings.finish_upload(
        database,
        upload_id,
        **{"sha256": digest(owner), "size_bytes": 11, "probe": make_probe(), **given},
    )


def submit(database: Database, owner: str = "ana", **given: Any) -> str:
    recording = given.pop("recording", None) or upload(database, owner)
    return submissions.submit(
        database,
        **{
            "owner": owner,
            "recording": recording,
            "request": make_request(),
            "portfolio_holdings": HOLDINGS,
            "portfolio_sha256": digest("portfolio"),
            "engine": "rehearsal",
            **given,
        },
    )


def claim(database: Database, **given: Any) -> Claimed | None:
    return claims.claim(
        database,
        **{
            "engine": make_engine(),
            "slot": "host:0",
            "host": "host",
            "pid": 4711,
            "prompt": lambda objective, holdings: f"{objective} {len(holdings)}",
            **given,
        },
    )


def claimed(database: Database, **given: Any) -> Claimed:
    found = claim(database, **given)
    assert found is not None
    return found


def fail(database: Database, key: EpochKey) -> None:
    """End an epoch and its job, and free the slot."""
    jobs.finish(
        database, key, outcome=JobState.FAILED, end_reason=EndReason.DECODE_ERROR, end_detail="why"
    )
    epochs.release(database, key)
