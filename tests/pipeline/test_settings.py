"""Settings come from the environment once, and nothing unknown or malformed passes."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from pipeline.errors import SettingsRefused
from pipeline.records import Phase
from pipeline.settings import MediaLimits, PhaseLimits, Settings


def test_without_variables_the_defaults_hold() -> None:
    settings = Settings.from_environment({"PATH": "/bin"})
    assert settings.data_dir == Path("var")
    assert settings.database_url is None
    assert settings.media == MediaLimits()


def test_variables_are_read_into_their_types() -> None:
    settings = Settings.from_environment(
        {
            "OMNAI_DATA_DIR": "/srv/omnai",
            "OMNAI_DATABASE_URL": "postgresql+psycopg://me@db/omnai",
            "OMNAI_FRAME_RING": "64",
            "OMNAI_MEDIA_SILENCE_S": "2.5",
            "OMNAI_MEDIA_EDGE_PX": "4096",
        }
    )
    assert settings.data_dir == Path("/srv/omnai")
    assert settings.database_url == "postgresql+psycopg://me@db/omnai"
    assert (settings.frame_ring, settings.media.silence_s, settings.media.edge_px) == (
        64,
        2.5,
        4096,
    )


def test_everything_unknown_or_malformed_is_named_at_once_without_its_value() -> None:
    with pytest.raises(SettingsRefused) as caught:
        Settings.from_environment(
            {
                "OMNAI_DATABASE_URL": "mysql://root:hunter2@db",
                "OMNAI_DATA_DRI": "/tmp",
                "OMNAI_FRAME_RING": "0",
                "OMNAI_MEDIA_CPU_S": "soon",
            }
        )
    problems = caught.value.problems
    assert [(problem.where, problem.code) for problem in problems] == [
        ("OMNAI_DATABASE_URL", "setting_malformed"),
        ("OMNAI_DATA_DRI", "setting_unknown"),
        ("OMNAI_FRAME_RING", "setting_malformed"),
        ("OMNAI_MEDIA_CPU_S", "setting_malformed"),
    ]
    assert "OMNAI_DATA_DIR" in problems[1].message
    assert "hunter2" not in str(caught.value)


def test_variables_of_the_tests_and_scripts_are_left_alone() -> None:
    Settings.from_environment({"OMNAI_TEST_DATABASE_URL": "x", "OMNAI_VENV": ".venv-3.10"})


def test_how_long_things_are_kept_is_a_number_of_days_or_for_ever() -> None:
    assert Settings.from_environment({}).keep_jobs_days is None
    names = ("OMNAI_KEEP_JOBS_DAYS", "OMNAI_KEEP_RECORDINGS_DAYS")
    settings = Settings.from_environment({"OMNAI_FREE_BYTES_MIN": "0", names[0]: "30"})
    assert (settings.free_bytes_min, settings.keep_jobs_days) == (0, 30)
    assert settings.keep_recordings_days is None
    assert Settings.from_environment(settings.to_environment()) == settings
    for days in ("0", "-1", "1.5", "36501", "for ever"):
        with pytest.raises(SettingsRefused) as caught:
            Settings.from_environment(dict.fromkeys(names, days))
        assert [problem.where for problem in caught.value.problems] == list(names)


def test_a_workers_settings_are_read() -> None:
    settings = Settings.from_environment(
        {
            "OMNAI_ENGINE": "rehearsal",
            "OMNAI_SLOT": "0",
            "OMNAI_STALE_S": "30",
            "OMNAI_PHASE_LIMITS": "unit=7.5, drain=9",
        }
    )
    assert (settings.engine, settings.slot, settings.stale_s) == ("rehearsal", 0, 30.0)
    assert settings.phase_limits == PhaseLimits(unit=7.5, drain=9.0)
    assert {limit.name for limit in fields(PhaseLimits)} == {phase.value for phase in Phase}


def test_the_models_settings_are_read() -> None:
    given = {
        "OMNAI_MODEL_SNAPSHOT": "/srv/model",
        "OMNAI_MODEL_ALLOW_UNVERIFIED": "yes",
        "OMNAI_DECODER": "official",
        "OMNAI_GPU": "GPU-7d0f",
    }
    settings = Settings.from_environment(given)
    assert (settings.model_folder, settings.gpu) == (Path("/srv/model"), "GPU-7d0f")
    assert settings.model_allow_unverified
    assert settings.decoder == "official"
    assert Settings.from_environment(settings.to_environment()) == settings


def test_by_default_the_model_lies_in_the_data_folder_and_must_be_verified() -> None:
    settings = Settings(data_dir=Path("/srv/omnai"))
    assert settings.model_folder == Path("/srv/omnai/model")
    assert not settings.model_allow_unverified
    assert Settings.from_environment(settings.to_environment()) == settings
    assert settings.decoder == "fast"
    with pytest.raises(SettingsRefused, match="official or fast"):
        Settings.from_environment({"OMNAI_DECODER": "faster"})
    with pytest.raises(SettingsRefused, match="yes or no"):
        Settings.from_environment({"OMNAI_MODEL_ALLOW_UNVERIFIED": "perhaps"})


@pytest.mark.parametrize("limits", ["unit", "unit=0", "lunch=60", "unit=1,unit=2", "", "unit=inf"])
def test_malformed_phase_limits_are_refused(limits: str) -> None:
    with pytest.raises(SettingsRefused) as caught:
        Settings.from_environment({"OMNAI_PHASE_LIMITS": limits})
    assert "unit=120,drain=120" in str(caught.value)


def test_settings_pass_through_an_environment_unchanged() -> None:
    settings = Settings(
        data_dir=Path("/srv/omnai"),
        database_url="postgresql+psycopg://me@db/omnai",
        host_name="host",
        slot=3,
        stale_s=30.5,
        phase_limits=PhaseLimits(unit=7.5),
        media=MediaLimits(silence_s=2.5),
    )
    assert Settings.from_environment(settings.to_environment()) == settings


@pytest.mark.parametrize(
    "text", ["s3://bucket", "s3://my.bucket-1/prefix", "s3://bucket/a/b_c.d/", " s3://bucket "]
)
def test_a_bucket_is_read_with_or_without_a_prefix(text: str) -> None:
    settings = Settings.from_environment({"OMNAI_BLOBS": text})
    assert settings.blobs == text.strip().rstrip("/")
    assert Settings.from_environment(settings.to_environment()).blobs == settings.blobs


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(("OMNAI_BLOBS", text) for text in ("/srv/blobs", "s3://", "s3://B/x", "s3://bucket//x")),
        *(("OMNAI_BLOBS", text) for text in ("s3://bucket/../x", "s3://key:hunter2@bucket")),
        ("OMNAI_S3_ENDPOINT", "minio:9000"),
        ("OMNAI_S3_ENDPOINT", "https://key:hunter2@minio"),
        ("OMNAI_S3_ENDPOINT", "https://minio/?token=hunter2"),
    ],
)
def test_storage_that_is_none_or_names_a_secret_is_refused(name: str, text: str) -> None:
    with pytest.raises(SettingsRefused) as caught:
        Settings.from_environment({name: text})
    assert [(p.where, p.code) for p in caught.value.problems] == [(name, "setting_malformed")]
    assert "hunter2" not in str(caught.value)


NIGHT = {"OMNAI_NIGHT": " 19:30-06:30 ", "OMNAI_NIGHT_ZONE": "Europe/Berlin"}


def test_a_night_is_read_and_handed_on_to_processes_of_ours() -> None:
    assert Settings().window is None
    settings = Settings.from_environment(NIGHT | {"OMNAI_NIGHT_HARD_END": "yes"})
    night = settings.window
    assert night is not None
    assert (f"{night.opens:%H:%M}", f"{night.closes:%H:%M}") == ("19:30", "06:30")
    assert (night.zone.key, night.has_weekends) == ("Europe/Berlin", True)
    assert settings.night_hard_end
    assert Settings.from_environment(settings.to_environment()) == settings
    plain = Settings.from_environment(NIGHT | {"OMNAI_NIGHT_WEEKENDS": "no"})
    assert plain.window is not None
    assert (plain.window.has_weekends, plain.night_hard_end) == (False, False)


@pytest.mark.parametrize(
    ("given", "refused"),
    [
        ({"OMNAI_NIGHT": "19:30-06:30"}, {"OMNAI_NIGHT": "setting_incomplete"}),
        ({"OMNAI_NIGHT_ZONE": "UTC"}, {"OMNAI_NIGHT_ZONE": "setting_incomplete"}),
        ({"OMNAI_NIGHT_HARD_END": "yes"}, {"OMNAI_NIGHT_HARD_END": "setting_incomplete"}),
        *(
            (NIGHT | {"OMNAI_NIGHT": window}, {"OMNAI_NIGHT": "setting_malformed"})
            for window in ("", "19:30", "19:30-19:30", "24:30-06:30", "7:30-06:30", "1-2-3")
        ),
        *(
            (NIGHT | {"OMNAI_NIGHT_ZONE": zone}, {"OMNAI_NIGHT_ZONE": "setting_malformed"})
            for zone in ("", "Europe", "Berlin", "../zone", "/etc/localtime", "A\0", "x" * 200)
        ),
    ],
    ids=repr,
)
def test_a_night_that_says_too_little_or_nothing_is_refused(
    given: dict[str, str], refused: dict[str, str]
) -> None:
    with pytest.raises(SettingsRefused) as caught:
        Settings.from_environment(given)
    assert {problem.where: problem.code for problem in caught.value.problems} == refused
