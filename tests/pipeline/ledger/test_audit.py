"""The audit: who did what, newest first, and no content."""

from __future__ import annotations

import pytest

from pipeline.ledger import audit, keys
from pipeline.ledger.audit import AuditEntry
from pipeline.ledger.database import Database
from pipeline.ledger.errors import LedgerRefused
from pipeline.ledger.keys import Role
from tests.pipeline.ledger.factories import rows

NOBODY = "c56a4180-65aa-42ec-a945-5fd21dec0538"


def write(database: Database, action: str = "brief_fetched", **given: object) -> None:
    audit.write(
        database,
        **{
            "actor": None,
            "owner": "ana",
            "action": action,
            "subject": NOBODY,
            "detail": {},
            **given,
        },  # type: ignore[arg-type]
    )


def test_what_was_written_is_listed_newest_first(database: Database) -> None:
    key, _ = keys.create(database, owner="ana", role=Role.ADMIN, label="", expires_at=None)
    detail: dict[str, audit.Fact] = {
        "revision": 3,
        "format": "html",
        "is_live": True,
        "epoch": None,
    }
    write(database, "job_submitted")
    write(database, actor=key.id, detail=detail)
    newest, oldest = audit.listed(database, limit=10)
    assert newest == AuditEntry(
        at=newest.at,
        actor=key.id,
        owner="ana",
        action="brief_fetched",
        subject=NOBODY,
        detail=detail,
    )
    assert (oldest.action, oldest.actor, oldest.detail) == ("job_submitted", None, {})
    assert audit.listed(database, limit=1) == (newest,)


@pytest.mark.parametrize("detail", [{"text": "x" * 201}, {"holdings": ["a"]}, {"weight": 0.5}])
def test_content_is_refused(database: Database, detail: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="at most"):
        write(database, detail=detail)
    with pytest.raises(ValueError, match="at most"):
        write(database, subject="x" * 201)
    assert rows(database, "SELECT count(*) FROM audit") == [(0,)]


def test_nobodys_key_cannot_have_done_anything(database: Database) -> None:
    with pytest.raises(LedgerRefused, match="fk_audit_key_id_api_keys"):
        write(database, actor=NOBODY)
