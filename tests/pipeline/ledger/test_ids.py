"""Ids: the one form that is given out, and nothing else."""

from __future__ import annotations

import pytest

from pipeline.ledger.ids import is_id

ID = "c56a4180-65aa-42ec-a945-5fd21dec0538"


def test_what_the_database_gives_out_is_an_id() -> None:
    assert is_id(ID)


@pytest.mark.parametrize(
    "other",
    [
        "",
        "1",
        ID.upper(),
        f"{{{ID}}}",
        ID.replace("-", ""),
        f"urn:uuid:{ID}",
        f"../{ID}",
        ID + "\n",
    ],
)
def test_every_other_spelling_is_none(other: str) -> None:
    assert not is_id(other)
