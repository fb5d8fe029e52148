"""The pinned GPU runtime: whole, hashed, as asked for, and compared with what is installed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from pipeline.engine.minicpm import runtime
from pipeline.engine.minicpm.runtime import Difference, PinsUnreadable, differences, read_pins

TARGET = {
    "python_version": "3.10",
    "python_full_version": "3.10.18",
    "sys_platform": "linux",
    "platform_system": "Linux",
    "platform_machine": "x86_64",
    "platform_python_implementation": "CPython",
    "implementation_name": "cpython",
    "os_name": "posix",
    "extra": "",
}

ASKED = {
    "pip": "25.3",
    "torch": "2.8.0",
    "torchaudio": "2.8.0",
    "transformers": "4.51.0",
    "minicpmo-utils": "1.0.6",
    "numpy": "1.26.4",
    "pillow": "10.4.0",
    "librosa": "0.9.0",
    "setuptools": "80.9.0",
}

CUDA_12_8 = {"nvidia-cuda-runtime-cu12", "nvidia-cublas-cu12", "nvidia-cudnn-cu12"}

HERE = {"python": "3.10.18", "system": "Linux x86_64"}


@pytest.fixture(scope="module")
def text() -> str:
    return runtime.PINS_PATH.read_text()


@pytest.fixture(scope="module")
def pins() -> dict[str, str]:
    return read_pins()


def test_every_line_pins_one_package_or_gives_one_of_its_hashes(text: str) -> None:
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    pin = re.compile(r"[a-z0-9._-]+(\[[a-z,]+\])?==[0-9][^\s;]* \\")
    digest = re.compile(r"    --hash=sha256:[0-9a-f]{64}( \\)?")
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        assert pin.fullmatch(line) or digest.fullmatch(line), line
        # A pin is followed by a hash, and its last hash by the next pin.
        assert line.endswith("\\") == after.startswith("    --hash"), line
    assert "://" not in text
    assert not re.search(r"[a-z]\.(org|com|io|net)\b", text)


def test_the_pins_that_the_model_needs_are_there(pins: dict[str, str]) -> None:
    assert {name: pins[name] for name in ASKED} == ASKED


def test_torchs_cuda_libraries_are_pinned_and_are_of_cuda_12(pins: dict[str, str]) -> None:
    cuda = {name: version for name, version in pins.items() if name.startswith("nvidia-")}
    assert cuda.keys() >= CUDA_12_8
    assert cuda["nvidia-cuda-runtime-cu12"].startswith("12.8.")
    assert all(name.endswith("-cu12") for name in cuda)


def wanted_by_the_project(repository: Path) -> list[Requirement]:
    text = (repository / "pyproject.toml").read_text()
    block = re.search(r"^dependencies = \[\n(.*?)^\]", text, re.MULTILINE | re.DOTALL)
    assert block is not None
    asked = re.findall(r'^    "([^"]+)"', block.group(1), re.MULTILINE)
    extra = (repository / "requirements-gpu.in").read_text().splitlines()
    return [Requirement(line) for line in [*asked, *extra] if line and not line.startswith("#")]


def test_the_pins_satisfy_everything_that_the_project_asks_for(
    pins: dict[str, str], repository: Path
) -> None:
    wanted = wanted_by_the_project(repository)
    assert len(wanted) > 25
    for requirement in wanted:
        version = pins[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(Version(version)), requirement


def test_the_pins_satisfy_each_other_as_far_as_installed_packages_tell(
    pins: dict[str, str],
) -> None:
    """A package that is here in the pinned version says what it needs on the pinned target."""
    from importlib.metadata import distribution

    told = [name for name, version in pins.items() if runtime.installed().get(name) == version]
    assert len(told) > 20
    for name in told:
        metadata = distribution(name)
        if "Requires-Python" in metadata.metadata:
            python = metadata.metadata["Requires-Python"]
            assert Requirement(f"x{python}").specifier.contains("3.10.18"), name
        for line in metadata.requires or ():
            needed = Requirement(line)
            if needed.marker is None or needed.marker.evaluate(TARGET):
                version = pins[canonicalize_name(needed.name)]
                assert needed.specifier.contains(Version(version)), f"{name} needs {line}"


def test_an_environment_as_pinned_has_no_difference(pins: dict[str, str]) -> None:
    assert differences(pins, {**pins, "something-else": "1"}, **HERE) == ()


def test_torch_from_its_own_cuda_index_is_the_same_build_and_another_cuda_is_not() -> None:
    assert differences({"torch": "2.8.0"}, {"torch": "2.8.0+cu128"}, **HERE) == ()
    for other in ("2.8.0+cpu", "2.8.0+cu126", "2.8.1", "2.8.0.post1"):
        found = differences({"torch": "2.8.0"}, {"torch": other}, **HERE)
        assert found == (Difference(name="torch", wanted="2.8.0", found=other),)


def test_what_is_missing_or_another_version_is_told_after_the_interpreter() -> None:
    pins = {"nvidia-cublas-cu12": "12.8.4.1", "numpy": "1.26.4", "torch": "2.8.0"}
    found = differences(
        pins, {"numpy": "2.1.0", "torch": "2.8.0"}, python="3.12.1", system="Linux aarch64"
    )
    assert found == (
        Difference(name="python", wanted="3.10", found="3.12.1"),
        Difference(name="platform", wanted="Linux x86_64", found="Linux aarch64"),
        Difference(name="numpy", wanted="1.26.4", found="2.1.0"),
        Difference(name="nvidia-cublas-cu12", wanted="12.8.4.1", found=None),
    )
    assert differences({}, {}, python="3.1.0", system="Linux x86_64")[0].name == "python"


def test_this_environments_packages_are_found_by_their_normalised_names() -> None:
    found = runtime.installed()
    assert "huggingface-hub" in found
    assert "sqlalchemy" in found


def test_pins_that_cannot_be_read_are_a_fault(tmp_path: Path) -> None:
    with pytest.raises(PinsUnreadable):
        read_pins(tmp_path / "none.txt")
    (tmp_path / "empty.txt").write_text("# nothing\n")
    with pytest.raises(PinsUnreadable):
        read_pins(tmp_path / "empty.txt")
