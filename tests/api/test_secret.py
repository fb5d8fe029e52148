"""The secret that signs sessions: set, or made once and kept to ourselves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from api.secret import secret_key
from pipeline.settings import Settings


def test_a_secret_that_is_set_is_taken_and_no_file_is_made(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "data", secret_key="s" * 32)
    assert secret_key(settings) == b"s" * 32
    assert not settings.data_dir.exists()


def test_without_one_it_is_made_once_for_us_alone(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "data")
    made = secret_key(settings)
    assert len(made) >= 32
    assert secret_key(settings) == made
    assert (settings.data_dir / "secret_key").stat().st_mode & 0o777 == 0o600
    assert secret_key(replace(settings, data_dir=tmp_path / "other")) != made
