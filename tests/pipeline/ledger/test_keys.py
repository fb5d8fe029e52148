"""Keys: shown once, stored hashed, found while valid; and links that work once."""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta, timezone

import pytest

from pipeline.ledger import keys
from pipeline.ledger.database import Database
from pipeline.ledger.errors import KeyUnknown
from pipeline.ledger.keys import Key, Role
from pipeline.ledger.schema.api_keys import ROLES
from tests.pipeline.ledger.factories import rows
from tests.pipeline.ledger.racing import held_at

FAR = datetime(2999, 1, 1, tzinfo=timezone.utc)
PAST = datetime(2001, 1, 1, tzinfo=timezone.utc)
NOBODY = "c56a4180-65aa-42ec-a945-5fd21dec0538"


def make(database: Database, expires_at: datetime | None = None) -> tuple[Key, str]:
    return keys.create(
        database, owner="ana", role=Role.ANALYST, label="laptop", expires_at=expires_at
    )


def change(database: Database, statement: str) -> None:
    rows(database, f"{statement} RETURNING 1")


def test_a_key_is_found_by_its_secret(database: Database) -> None:
    key, secret = make(database, FAR)
    found = keys.find(database, secret)
    assert found is not None
    assert (found.id, found.owner, found.role, found.label) == (
        key.id,
        "ana",
        Role.ANALYST,
        "laptop",
    )
    assert (found.expires_at, key.last_used_at) == (FAR, None)


def test_only_a_hash_of_the_secret_is_stored(database: Database) -> None:
    key, secret = make(database)
    assert secret.startswith("omnai_")
    # 256 bits are 43 characters of 6 bits each.
    assert len(secret.removeprefix("omnai_")) >= 43
    [(whole, stored)] = rows(database, "SELECT api_keys::text, secret_hash FROM api_keys")
    assert secret not in whole
    assert stored == hashlib.sha256(secret.encode()).hexdigest()
    assert secret not in repr(key)


def test_no_two_secrets_are_alike(database: Database) -> None:
    assert len({make(database)[1] for _ in range(20)}) == 20


@pytest.mark.parametrize("secret", ["", "omnai_", "omnai_x", "\x00", "\udcff", "' OR true --"])
def test_an_unknown_secret_finds_nothing(database: Database, secret: str) -> None:
    make(database)
    assert keys.find(database, secret) is None


def test_an_expired_key_finds_nothing(database: Database) -> None:
    key, secret = make(database, PAST)
    assert keys.find(database, secret) is None
    assert keys.get(database, key.id) is None


def test_a_revoked_key_finds_nothing_and_stays_listed(database: Database) -> None:
    key, secret = make(database)
    assert keys.revoke(database, key.id)
    assert keys.find(database, secret) is None
    assert keys.get(database, key.id) is None
    [listed] = keys.listed(database)
    assert listed.revoked_at is not None
    assert not keys.revoke(database, key.id)


@pytest.mark.parametrize("key_id", [NOBODY, "", "not-an-id"])
def test_nobodys_key_cannot_be_revoked_or_signed_in_with(database: Database, key_id: str) -> None:
    assert not keys.revoke(database, key_id)
    assert keys.get(database, key_id) is None
    with pytest.raises(KeyUnknown):
        keys.make_sign_in(database, key_id, lifetime_s=60)


def test_use_is_stamped_at_most_once_a_minute(database: Database) -> None:
    _, secret = make(database)
    first = keys.find(database, secret)
    again = keys.find(database, secret)
    assert first is not None
    assert again is not None
    assert first.last_used_at is not None
    assert again.last_used_at == first.last_used_at
    change(database, "UPDATE api_keys SET last_used_at = now() - interval '61 s'")
    later = keys.find(database, secret)
    assert later is not None
    assert later.last_used_at is not None
    assert later.last_used_at >= first.last_used_at
    [(age_s,)] = rows(database, "SELECT extract(epoch FROM now() - last_used_at) FROM api_keys")
    assert age_s < 30


def test_keys_are_listed_oldest_first(database: Database) -> None:
    made = [make(database)[0].id for _ in range(3)]
    assert [key.id for key in keys.listed(database)] == made


def test_the_roles_are_those_that_the_table_accepts() -> None:
    assert tuple(role.value for role in Role) == ROLES


def test_a_sign_in_works_once(database: Database) -> None:
    key, _ = make(database)
    token = keys.make_sign_in(database, key.id, lifetime_s=60)
    taken = keys.take_sign_in(database, token)
    assert taken is not None
    assert taken.id == key.id
    assert keys.take_sign_in(database, token) is None


def test_a_sign_in_is_stored_as_a_hash(database: Database) -> None:
    token = keys.make_sign_in(database, make(database)[0].id, lifetime_s=60)
    [(whole,)] = rows(database, "SELECT sign_ins::text FROM sign_ins")
    assert token not in whole


def test_a_sign_in_expires_and_is_swept(database: Database) -> None:
    key, _ = make(database)
    token = keys.make_sign_in(database, key.id, lifetime_s=60)
    change(database, "UPDATE sign_ins SET expires_at = now()")
    assert keys.take_sign_in(database, token) is None
    keys.make_sign_in(database, key.id, lifetime_s=60)
    assert rows(database, "SELECT count(*) FROM sign_ins") == [(1,)]


def test_a_revoked_keys_sign_in_is_worth_nothing(database: Database) -> None:
    key, _ = make(database)
    token = keys.make_sign_in(database, key.id, lifetime_s=60)
    keys.revoke(database, key.id)
    assert keys.take_sign_in(database, token) is None
    with pytest.raises(KeyUnknown):
        keys.make_sign_in(database, key.id, lifetime_s=60)


def test_a_key_that_expires_takes_its_sign_in_along(database: Database) -> None:
    key, _ = make(database, datetime.now(timezone.utc) + timedelta(hours=1))
    token = keys.make_sign_in(database, key.id, lifetime_s=60)
    change(database, "UPDATE api_keys SET expires_at = now()")
    assert keys.take_sign_in(database, token) is None


def test_a_token_used_twice_at_once_signs_in_once(database: Database) -> None:
    key, _ = make(database)
    token = keys.make_sign_in(database, key.id, lifetime_s=60)
    take = lambda: keys.take_sign_in(database, token)  # noqa: E731
    outcomes = held_at(database, "SELECT 1 FROM sign_ins FOR UPDATE", take, take)
    assert sorted(outcome is None for outcome in outcomes) == [False, True]
