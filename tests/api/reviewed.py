"""Jobs with findings to search and to write on, without a recording's bytes or an engine's time."""

from __future__ import annotations

from sqlalchemy import text

from pipeline.ledger.database import Database
from pipeline.ledger.epochs import EpochKey
from pipeline.publish import publish
from tests.pipeline.ledger.factories import make_finding, make_origin, record_unit
from tests.pipeline.ledger.queued import claimed, fail, submit

KEY = "1.0.0"


def ended(database: Database, owner: str, *observed: str) -> str:
    """The id of an ended and published job with these findings, one a second."""
    key = begun(database, owner)
    for at, evidence in enumerate(observed):
        origin = make_origin(first_sequence=at, last_sequence=at)
        texts = [make_finding(turn=at, evidence=evidence, origin=origin)]
        record_unit(database, key, at, texts=texts)
    fail(database, key)
    publish(database, key.job_id, release="1")
    return key.job_id


def running(database: Database, owner: str) -> str:
    """The id of a running job with a finding."""
    key = begun(database, owner)
    record_unit(database, key, 0, texts=[make_finding()])
    return key.job_id


def begun(database: Database, owner: str) -> EpochKey:
    """Of a new job, whatever else is queued."""
    job_id = submit(database, owner)
    with database.transaction() as session:
        session.execute(text("UPDATE jobs SET priority = -1 WHERE id = :id"), {"id": job_id})
    key = claimed(database).key
    assert key.job_id == job_id
    return key
