"""Hypothesis without chance or clock, the real profiles, and the slow reference reader for every folder of tests."""

# ruff: noqa: E402 - where bytecode goes is said before anything is imported that has none

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
if sys.dont_write_bytecode:  # else every process of the tests, and every program they start, compiles all it imports
    sys.dont_write_bytecode = False
    sys.pycache_prefix = str(ROOT / ".pytest_cache" / "bytecode")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # processes of the tests have the option only
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix

# A thread of polars for each core of each process of the tests: they wait for work by turning round and round.
os.environ.setdefault("POLARS_MAX_THREADS", "1")

import gc
import json
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from hashlib import sha256
from importlib.metadata import distributions
from inspect import iscoroutinefunction
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

from npu_tui.load.load import load
from npu_tui.strings import ENGLISH, speak
from npu_tui.trace.model import Trace

sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "load")]

os.environ["NPU_TUI_CONFIG"] = os.devnull  # nobody's own settings

gc.set_threshold(200_000, 50, 100)  # looking for garbage as often as usual is a tenth of the time of all tests

from kept import is_as_imported, keep
from reference import Reference, read  # its folder is no package

keep(ROOT / ".pytest_cache" / "made")

# Why an example fails is explained by tracing every line of all of them.
phases = tuple(phase for phase in Phase if phase is not Phase.explain)
settings.register_profile(
    "npu-tui",
    phases=phases,
    max_examples=12,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile(
    "long", settings.get_profile("npu-tui"), phases=tuple(Phase), max_examples=1_000, derandomize=False
)
# Enough to know that a test fails, as tests/mutate.py asks for: a mutant is tried once, with more examples.
phases = (Phase.explicit, Phase.generate)
settings.register_profile("first-failure", settings.get_profile("npu-tui"), max_examples=20, phases=phases)
settings.load_profile("npu-tui")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "few(count): so many of its cases are enough unless NPU_TUI_ALL asks for all")
    config.addinivalue_line("markers", "of_files(*paths): asks of these files alone, and again when they have changed")
    config.addinivalue_line("markers", "reached_from(*paths): a quick run asks it if one of these or its file differs")


_QUICK_CASES = {False: 2, True: 1}
"""Of each test in a quick run, by whether it opens a screen: that is 90 % of what the largest room, tui, takes."""

_QUICK_SCREENS = 3
"""One of so many tests that open a screen is asked in a quick run where their file imports nothing that differs."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import tests that ``-m of_files`` leaves out anyway: that takes longer than those it asks."""
    if config.getoption("markexpr") != "of_files" or collection_path.suffix != ".py":
        return None
    return "of_files" not in collection_path.read_text(encoding="utf-8") or None


@cache
def _imports(path: Path, differing: tuple[str, ...]) -> bool:
    """Whether the tests at ``path`` import one of the files that differ."""
    text = path.read_text(encoding="utf-8")
    modules = (file.removesuffix(".py").replace("/", ".") for file in differing if file.endswith(".py"))
    return any(f"from {module} import" in text for module in modules)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of tests with many cases of one kind some, evenly spaced; all of them with ``NPU_TUI_ALL=1``.

    ``NPU_TUI_QUICK`` names the files that differ, one a line. Then tests in other files have few cases, those that
    start programs are asked if what they start differs, and of those that open a screen every third one is asked
    where its file imports nothing that differs.
    """
    if os.environ.get("NPU_TUI_ALL"):
        return
    differing = tuple(os.environ.get("NPU_TUI_QUICK", "").split())
    cases: dict[object, list[pytest.Item]] = {}
    left = set()
    for item in items:
        path, reached = str(item.path.relative_to(ROOT)), item.get_closest_marker("reached_from")
        quick = bool(differing) and path not in differing
        if quick and reached is not None and not any(each.startswith(reached.args) for each in differing):
            left.add(item)
        elif quick or item.get_closest_marker("few") is not None:
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    screens: dict[Path, int] = {}
    for own in cases.values():
        few = own[0].get_closest_marker("few")
        opens_screen = iscoroutinefunction(getattr(own[0], "function", None))
        quick = _QUICK_CASES[opens_screen] if differing else len(own)
        count = min(few.args[0] if few else quick, quick, len(own))
        if differing and opens_screen and not _imports(own[0].path, differing):
            screens[own[0].path] = screens.get(own[0].path, 0) + 1
            count *= screens[own[0].path] % _QUICK_SCREENS == 1
        left |= set(own) - {own[at * len(own) // count] for at in range(count)}
    items[:] = [item for item in items if item not in left]
    config.hook.pytest_deselected(items=list(left))


def pytest_collection_finish() -> None:
    """What is there before the first test stays: nobody looks for garbage among it, which the explorer does at rest.

    So do the simulators: a test may only change them for itself.
    """
    gc.freeze()
    is_as_imported()


def pytest_unconfigure() -> None:
    """Leave alone what the tests have loaded: pytest looks for garbage among all of it five times before it ends."""
    gc.freeze()


_ASKED_OF = pytest.StashKey[str]()


@cache
def _digest(*paths: str) -> str:
    """What all files at and below ``paths`` hold, and who runs them."""
    installed = sorted(f"{each.name} {each.version}" for each in distributions())
    found = sha256(f"{sys.version} {platform.platform()} {installed}".encode())
    for path in map(ROOT.joinpath, paths):
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file() and "__pycache__" not in file.parts:
                found.update(f"{file.relative_to(ROOT)} {sha256(file.read_bytes()).hexdigest()}\n".encode())
    return found.hexdigest()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what asks of files alone and has passed with the same ones: compilers and simulators say the same again."""
    mark, cache = item.get_closest_marker("of_files"), getattr(item.config, "cache", None)
    if mark is None or cache is None or os.environ.get("NPU_TUI_ALL"):
        return
    digest = _digest(*mark.args, str(item.path.relative_to(ROOT)))
    if cache.get(f"of_files/{item.nodeid}", "") == digest:
        pytest.skip(reason="its files are those of the last time it passed; NPU_TUI_ALL=1 asks it again")
    item.stash[_ASKED_OF] = digest


def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    if call.when == "call" and call.excinfo is None and _ASKED_OF in item.stash:
        item.config.cache.set(f"of_files/{item.nodeid}", item.stash[_ASKED_OF])


WITHOUT_TRACES = "NPU_TUI_TRACES is not set: it names the folder of the real profiles"
REAL = {
    "level0/rank0": "text/level0/rank0_ascend_pt",
    "level0/rank1": "text/level0/rank1_ascend_pt",
    "level1/rank0": "text/level1/rank0_ascend_pt",
    "level1/rank1": "text/level1/rank1_ascend_pt",
    "single_card": "single_card/trace_view.json",
}


@dataclass(frozen=True)
class Sample:
    """A trace on disk, read by the loader and by the reference reader, each once."""

    name: str
    path: Path

    @property
    def file(self) -> Path:
        return self.path / "ASCEND_PROFILER_OUTPUT" / "trace_view.json" if self.path.is_dir() else self.path

    @cached_property
    def trace(self) -> Trace:
        return load(self.path)

    @property
    def files(self) -> list[Path]:
        """All files of the trace; several are slices of one msprof export."""
        return [Path(file.path) for file in self.trace.files]

    @cached_property
    def reference(self) -> Reference:
        return read(*(file.read_bytes() for file in self.files))

    @property
    def truth(self) -> dict[str, Any]:
        """What the simulator knows of the trace."""
        folder = next(folder for folder in (self.path, *self.path.parents) if (folder / "truth.json").exists())
        known: dict[str, Any] = json.loads((folder / "truth.json").read_text(encoding="utf-8"))
        return known


@cache
def _sample(name: str, path: Path) -> Sample:
    """The same one for all tests of a process: what one of them has read of it the others need not read."""
    return Sample(name, path)


def _real(name: str) -> Sample:
    folder = os.environ.get("NPU_TUI_TRACES")
    if not folder:
        pytest.skip(reason=WITHOUT_TRACES)
    path = Path(folder).resolve() / REAL[name]
    if not path.exists():
        pytest.skip(reason=f"{path} is missing: NPU_TUI_TRACES names another folder")
    return _sample(name, path)


@pytest.fixture(autouse=True)
def _as_started() -> Iterator[None]:
    """No test leaves its language or its keys to the next."""
    yield
    speak(ENGLISH)
    if keymap := sys.modules.get("npu_tui.tui.keymap"):
        keymap.use_keys({})


@pytest.fixture(scope="session", params=REAL)
def real(request: pytest.FixtureRequest) -> Sample:
    """Every real profile in turn."""
    return _real(request.param)


@pytest.fixture(scope="session", params=[name for name in REAL if name.startswith("level")])
def profile(request: pytest.FixtureRequest) -> Sample:
    """Every real profile that has companion files."""
    return _real(request.param)


@pytest.fixture(scope="session", params=[name for name in REAL if name.startswith("level1")])
def level1(request: pytest.FixtureRequest) -> Sample:
    """The real profiles of Level1, which have every companion file."""
    return _real(request.param)


FIXTURES = ROOT / "fixtures"


def _samples() -> Iterator[str]:
    """Every trace of the fixtures, relative to their folder."""
    for file in sorted(FIXTURES.rglob("truth.json")):
        truth = json.loads(file.read_text(encoding="utf-8"))
        folder = file.parent.relative_to(FIXTURES)
        if isinstance(truth.get("files"), list):
            yield from (str(folder / name) for name in truth["files"])
        elif "events" in truth:
            yield str(folder)


@pytest.fixture(scope="session", params=_samples())
def sample(request: pytest.FixtureRequest) -> Sample:
    """Every trace of the fixtures: all situations and all writers."""
    return _sample(request.param, FIXTURES / request.param)


@pytest.fixture(scope="session", params=["healthy", "dispatch_bound"])
def bundled(request: pytest.FixtureRequest) -> Sample:
    """Every bundled profile in turn."""
    return _sample(request.param, FIXTURES / request.param)
