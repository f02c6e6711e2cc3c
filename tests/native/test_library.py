"""The compiled libraries: which one is used, and that they come from the source beside them."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from npu_tui.load.load import load
from npu_tui.native import build
from npu_tui.native import library as libraries
from npu_tui.native.layout import NUMBER, REGION, WORDS

FOLDER = Path(libraries.__file__).parent / "library"
NAMES = {"x86_64_v2", "x86_64_v3", "aarch64"}


def missing() -> str:
    """Whether the compiler is not here in its pinned version."""
    if importlib.util.find_spec("ziglang") is None or importlib.metadata.version("ziglang") != build.ZIGLANG:
        return f"ziglang {build.ZIGLANG} is not installed: pip install -e '.[libraries]'"
    return ""


@pytest.mark.of_files("npu_tui/native")
@pytest.mark.skipif(bool(missing()), reason=missing())
def test_libraries_come_from_their_source(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "npu_tui.native.build", "-o", str(tmp_path)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    assert {path.stem for path in tmp_path.iterdir()} == NAMES
    for path in tmp_path.iterdir():
        assert path.read_bytes() == (FOLDER / path.name).read_bytes(), path.name


def test_c_and_python_know_one_layout() -> None:
    assert build.HEADER.read_text() == build.header()


def test_the_pinned_compiler_is_that_of_the_project() -> None:
    assert f'"ziglang=={build.ZIGLANG}"' in (FOLDER.parents[2] / "pyproject.toml").read_text()


def test_libraries_are_small_and_free_standing() -> None:
    assert {path.stem for path in FOLDER.glob("*.so")} == NAMES
    for path in FOLDER.glob("*.so"):
        data = path.read_bytes()
        assert data[:4] == b"\x7fELF"
        assert len(data) < 64 << 10
        assert b"GLIBC" not in data
        assert b"libc.so" not in data


def test_the_state_has_one_word_for_everything() -> None:
    words = [*REGION.values(), *(at + 1 for at in REGION.values()), *NUMBER.values()]
    assert sorted(words) == list(range(WORDS))


@pytest.mark.skipif(sys.platform != "linux", reason="the libraries are for Linux")
def test_a_machine_gets_the_best_it_can_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def chosen(machine: str, flags: set[str]) -> str:
        monkeypatch.setattr(libraries.os, "uname", lambda: SimpleNamespace(machine=machine))
        monkeypatch.setattr(libraries, "_flags", lambda: flags)
        return libraries.suiting()

    v2 = {"cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"}
    v3 = v2 | {"abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"}
    assert chosen("x86_64", {"fpu", *v3}) == "x86_64_v3"
    assert chosen("x86_64", v3 - {"bmi2"}) == "x86_64_v2"
    assert chosen("x86_64", v2 - {"popcnt"}) == ""
    assert chosen("aarch64", set()) == "aarch64"
    assert chosen("riscv64", v3) == ""


def test_off_and_what_cannot_be_loaded_fall_back(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "broken.so"
    broken.write_bytes(b"\x7fELF nothing")
    for wish in ("off", str(broken), str(tmp_path / "absent.so"), "no_such_machine"):
        monkeypatch.setenv(libraries.VARIABLE, wish)
        assert libraries.library() is None
        assert len(load("fixtures/healthy").slices) > 1000


@pytest.mark.parametrize("name", ["x86_64_v2", "x86_64_v3"])
@pytest.mark.skipif(platform.machine() != "x86_64", reason="not a machine of x86-64")
def test_both_libraries_of_this_machine_read(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(libraries.VARIABLE, "")
    if name == "x86_64_v3" and not libraries._flags() >= libraries._V3:
        pytest.skip(reason="this processor has no AVX2")
    monkeypatch.setenv(libraries.VARIABLE, name)
    found = libraries.library()
    assert found is not None
    assert found.name == name
    assert len(load("fixtures/healthy").slices) > 1000
