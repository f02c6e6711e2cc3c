"""No circles of imports, and what is in memory after one; ``.ci/run`` asks for the contracts of pyproject.toml."""

from __future__ import annotations

import re
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

pytestmark = pytest.mark.of_files("npu_tui", "fixtures/healthy")

ROOT = Path(__file__).resolve().parents[1]


def modules_after(statement: str) -> set[str]:
    """The top-level modules of a fresh process after ``statement``."""
    code = f"{statement}; import sys; print(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def modules_of(room: str) -> list[str]:
    """Every module of a room by its dotted name."""
    paths = sorted(path for path in (ROOT / "npu_tui" / room).rglob("*.py"))
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in paths]
    return [name.removesuffix(".__init__") for name in names]


IMPORT = re.compile(r"^ *(?:import (?P<whole>npu_tui[\w.]*)|from (?P<of>npu_tui[\w.]*) import (\([^)]*\)|.*))", re.M)


def imports_of(path: Path, modules: set[str]) -> set[str]:
    """The ``modules`` that a file names in its imports, also in those that only a type checker runs."""
    found = set()
    for line in IMPORT.finditer(path.read_text(encoding="utf-8")):
        inner = {f"{line['of']}.{name}" for name in re.findall(r"\w+", line[3] or "")}
        found |= inner & modules or {line["whole"] or line["of"]}
    return found & modules


def test_no_files_import_each_other_in_a_circle() -> None:
    paths = {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
             for path in (ROOT / "npu_tui").rglob("*.py")}  # fmt: skip
    graph = {name: imports_of(path, set(paths)) - {name} for name, path in paths.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


CORE = ["native", "trace", "load", "analysis", "rules", "view"]


@pytest.mark.parametrize("rooms", [CORE, ["output", "query", "tui"]], ids=["core", "others"])
def test_the_core_needs_no_screen_and_polars_is_imported_only_where_it_is_used(rooms: list[str]) -> None:
    """Importing polars takes longer than the first picture may."""
    loaded = modules_after(f"import {', '.join(name for room in rooms for name in modules_of(room))}")
    assert "npu_tui" in loaded
    assert "polars" not in loaded
    if rooms is CORE:
        assert not loaded & {"textual", "rich"}


def test_the_first_picture_does_not_wait_for_textual() -> None:
    loaded = modules_after("import npu_tui.cli.explore, npu_tui.tui.loading")
    assert not loaded & {"textual", "polars"}


def test_the_command_line_is_light() -> None:
    loaded = modules_after("import npu_tui.cli.main")
    assert not loaded & {"numpy", "polars", "textual", "rich", "msgspec", "orjson", "platformdirs"}


def test_a_report_of_one_profile_imports_no_job_and_no_picture() -> None:
    code = "from npu_tui.cli.main import main; main(['report', 'fixtures/healthy']); import sys"
    command = [sys.executable, "-c", f"{code}; print(*sys.modules)"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = done.stdout.splitlines()[-1].split()
    assert "npu_tui.output.report" in loaded
    assert not {"npu_tui.jobs.job", "npu_tui.view.scene", "polars", "textual"} & set(loaded)


def test_completing_a_command_is_light() -> None:
    line = "WordCompleter(None)._get_completions(['npu-tui', 'report', '--format'], '', '', None)"
    loaded = modules_after(f"from npu_tui.cli.completion import WordCompleter; {line}")
    assert not loaded & {"numpy", "polars", "textual", "rich", "orjson"}


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["--version"],
        ["demo", "--help"],
        ["report", "--help"],
        ["check", "--help"],
        ["settings", "--help"],
        ["query", "--help"],
        ["query", "--examples"],
        ["crop", "--help"],
        ["watch", "--help"],
    ],
)
def test_help_is_light(words: list[str]) -> None:
    call = f"import npu_tui.cli.main; npu_tui.cli.main.main({words!r})"
    statement = f"import contextlib\nwith contextlib.suppress(SystemExit):\n    {call}\n"
    loaded = modules_after(f"exec({statement!r})")
    assert not loaded & {"numpy", "polars", "textual", "rich"}
