"""Nothing outside of the roots is opened or listed, whatever lies above them and wherever links in them lead."""

from __future__ import annotations

import ast
import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npu_tui.load.companions import companions_of
from npu_tui.load.find import find_source
from npu_tui.mcp.server import answered
from npu_tui.mcp.session import OpenProfiles, ToolCall
from npu_tui.trace.side_file import limited_to, open_regular
from tests.conftest import ROOT

WORD = "word_of_outside"
_watched: list[tuple[str, list[str]]] = []


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if _watched and event in ("open", "os.listdir", "os.scandir", "sqlite3.connect"):
        area, seen = _watched[-1]
        if isinstance(args[0], str | bytes | os.PathLike):
            place = os.path.realpath(os.fsdecode(args[0]).removeprefix("file:").partition("?")[0])
            if place.startswith(area):
                seen.append(place)


@cache
def _watch() -> None:
    """Hear of all that is opened from now on: the interpreter never forgets whom it tells."""
    sys.addaudithook(_hook)


@contextmanager
def watched(area: Path) -> Iterator[list[str]]:
    """The real paths of what is opened or listed in ``area`` meanwhile."""
    _watch()
    seen: list[str] = []
    _watched.append((f"{area.resolve()}/", seen))
    try:
        yield seen
    finally:
        _watched.pop()


def outside(area: Path) -> list[Path]:
    """What lies outside of the root: a profile, files of every kind that are looked for beside and above one."""
    place = area / "outside"
    shutil.copytree(ROOT / "fixtures/two_ranks", place / "job")
    metadata = {"ENV_VARIABLES": {"PYTORCH_NPU_ALLOC_CONF": f"{WORD}:1"}, "role": WORD}
    for folder in (area, place, *place.glob("job/rank*")):
        (folder / "profiler_metadata.json").write_text(json.dumps(metadata))
        (folder / "profiler_info_0.json").write_text(json.dumps({"host_name": WORD}))
        (folder / "start_info").write_text(json.dumps({"clockMonotonicRaw": "1", "collectionTimeBegin": "1"}))
        shutil.copy(ROOT / "tests/mcp/test_roots.py", folder / "trace.txt")
        (folder / "trace.txt").write_text(f"    {WORD}-7 [000] d..2. 1.000000: sched_waking: comm=x pid=9 prio=1\n")
    (place / "run.json").write_text(json.dumps({"label": WORD}))
    (place / "x.run.json").write_text(json.dumps({"label": WORD}))
    output = next(place.rglob("ASCEND_PROFILER_OUTPUT"))
    return [place, place / "job", output.parent, output, output / "trace_view.json", output / "kernel_details.csv",
            place / "profiler_metadata.json", place / "trace.txt", place / "x.run.json"]  # fmt: skip


NAMES = [
    "ASCEND_PROFILER_OUTPUT", "ASCEND_PROFILER_OUTPUT/trace_view.json", "ASCEND_PROFILER_OUTPUT/kernel_details.csv",
    "ASCEND_PROFILER_OUTPUT/communication.json", "profiler_metadata.json", "profiler_info_0.json", "trace.txt",
    "start_info", "PROF_000001_20250701_ABC", "cluster_analysis_output", "x.run.json", "rank7_ascend_pt",
    "trace_view.json", "ascend_pytorch_profiler_0.db", "request.csv", "profiler_config.json",
]  # fmt: skip
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("open", {}), ("report", {"tokens": 20_000}), ("tables", {}), ("ranks", {}), ("log", {}),
    ("query", {"sql": "SELECT * FROM slices LIMIT 2"}), ("record", {"wait": 1}), ("analyse", {}),
]  # fmt: skip


@given(
    st.lists(st.tuples(st.sampled_from(["", "r0/", "r1/"]), st.sampled_from(NAMES), st.integers(0, 8)), max_size=4),
    st.sampled_from(["", "r0", "r0/ASCEND_PROFILER_OUTPUT"]),
    st.booleans(),
    st.booleans(),
)
def test_nothing_outside_is_opened_or_listed(tmp_path_factory, links, inner, relative, chained):
    area = tmp_path_factory.mktemp("area")
    targets = outside(area)
    job = area / "above" / "job"
    for number in (0, 1):
        shutil.copytree(ROOT / f"fixtures/two_ranks/rank{number}_ascend_pt", job / f"r{number}")
    shutil.copy(area / "profiler_metadata.json", area / "above")
    shutil.copy(area / "trace.txt", area / "above")
    for folder, name, target in links:
        place = job / folder / name
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        place.unlink(missing_ok=True)
        place.parent.mkdir(exist_ok=True, parents=True)
        to = Path(os.path.relpath(targets[target], place.parent.resolve())) if relative else targets[target]
        if chained:
            between = job / f"link{len(os.listdir(job))}"
            between.symlink_to(targets[target])
            to = between
        place.symlink_to(to)
    root = job / inner
    if not root.is_dir() or root.resolve() != root:
        root = job
    session = OpenProfiles([root], may_record=True)
    for tool, more in CALLS:
        for path in (".", *(["r0"] if root == job else [])):
            with watched(area) as seen:
                answer = json.dumps(answered(session, ToolCall(), tool, {"path": path, **more})[0])
            beyond = sorted({place for place in seen if not f"{place}/".startswith(f"{root}/")})
            assert not beyond, (tool, path, beyond)
            assert WORD not in answer, tool


def test_what_lies_in_the_root_is_answered_without_what_is_above(tmp_path):
    job = tmp_path / "job"
    shutil.copytree(ROOT / "fixtures/healthy", job)
    session = OpenProfiles([job / "ASCEND_PROFILER_OUTPUT"])
    with watched(tmp_path) as seen:
        assert "error" not in answered(session, ToolCall(), "report", {"path": "."})[0]
    assert seen
    with limited_to([job / "ASCEND_PROFILER_OUTPUT"]):
        companions = companions_of(find_source(job / "ASCEND_PROFILER_OUTPUT"))
        assert companions.info_document().state == companions.metadata_document().state == "missing"


def test_a_name_that_leads_out_is_not_there(tmp_path):
    (tmp_path / "root").mkdir()
    (tmp_path / "file").write_text("x")
    (tmp_path / "root/link").symlink_to("../file")
    (tmp_path / "root/file").write_text("y")
    with limited_to([tmp_path / "root"]):
        for path in ("link", "../file", "./../root/../file"):
            with pytest.raises(FileNotFoundError):
                open_regular(tmp_path / "root" / path)
        with open_regular(tmp_path / "root/../root/file") as stream:
            assert stream.read() == b"y"
    with open_regular(tmp_path / "root/link") as stream:
        assert stream.read() == b"x"


_OPENS = {
    "open", "iterdir", "scandir", "listdir", "glob", "rglob", "walk", "read_text", "read_bytes", "copyfile", "scan_csv",
    "scan_parquet", "read_parquet", "fdopen",
}  # fmt: skip
_ROOMS = ("load", "jobs", "profile", "compare", "query", "subjects", "rules", "mcp", "output", "nearby", "crop")
_OWN = {
    "load/copy.py": "parsed copies", "load/unpack.py": "what is unpacked", "load/format.py": "the survey asks the gate",
    "load/load.py": "standard input", "jobs/summary.py": "writes", "jobs/summarize.py": "its own summaries",
    "query/engine.py": "a file without a name", "output/html.py": "templates", "crop.py": "writes",
    "mcp/server.py": "standard input", "mcp/session.py": "looks for links", "load/database_file.py": "private copies",
}  # fmt: skip


@pytest.mark.of_files("npu_tui")
def test_files_of_profiles_are_opened_through_the_door_alone():
    """A file or folder that somebody names is opened by ``side_file``; others are the program's own."""
    found = set()
    for path in sorted((ROOT / "npu_tui").rglob("*.py")):
        name = path.relative_to(ROOT / "npu_tui").as_posix()
        if name.removesuffix(".py").partition("/")[0] not in _ROOMS:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            is_method = isinstance(node.func, ast.Attribute)
            called = node.func.attr if is_method else getattr(node.func, "id", "")
            of = ast.unparse(node.func.value) if is_method else ""
            if called in _OPENS and "survey" not in of.lower():
                found.add((name, f"{of}.{called}"))
    assert {name for name, _ in found} <= set(_OWN), sorted(found)
