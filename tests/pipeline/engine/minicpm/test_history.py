"""What nobody reads is dropped, and no draw can tell."""

from __future__ import annotations

import pytest

from pipeline.engine.minicpm import history
from tests.pipeline.engine.minicpm.doubles import DuplexDouble, ModelDouble


@pytest.mark.parametrize("name", ["generated_tokens", "generated_special_tokens"])
def test_the_last_512_drawn_tokens_stay_in_order(name: str) -> None:
    duplex = DuplexDouble(ModelDouble())
    drawn = list(range(5_000))
    setattr(duplex.decoder, name, drawn[:300])
    history.trim(duplex)
    assert getattr(duplex.decoder, name) == drawn[:300]
    setattr(duplex.decoder, name, list(drawn))
    history.trim(duplex)
    assert getattr(duplex.decoder, name) == drawn[-512:]


def test_everything_else_that_grows_is_emptied_in_place() -> None:
    duplex = DuplexDouble(ModelDouble())
    grown = [duplex.total_hidden, duplex.total_ids, duplex.res_ids, duplex.prefill_schema_tokens]
    for kept in grown:
        kept.append(object())
    history.trim(duplex)
    assert grown == [[], [], [], []]
    assert duplex.total_hidden is grown[0]
