"""How often a report opens the files of a profile and lists its folders: as often as it must, whoever asks."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.conftest import WITHOUT_TRACES

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "fixtures"))

from service_causes import write_service

_WATCHED = """
import contextlib, io, json, os, sys
from collections import Counter
from npu_tui.cli.main import main
root, opened, listed = os.path.realpath(sys.argv[1]), Counter(), Counter()
counts = {"open": opened, "os.listdir": listed, "os.scandir": listed}
def watch(event, args):
    if event in counts and isinstance(args[0], (str, os.PathLike)):
        path = os.path.realpath(args[0])
        if path.startswith(root) or root.startswith(path):
            counts[event][path] += 1
sys.addaudithook(watch)
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    main(["report", sys.argv[1], "--no-cache"])
folders = {path for path in opened if os.path.isdir(path)}  # whoever looks for a head finds none
print(json.dumps([{path: count for path, count in opened.items() if path not in folders}, listed]))
"""
"""Opens and listings as Python tells them: those of SQLite are not seen."""

HEALTHY = Path("fixtures/healthy")


def looks_of(path: Path) -> tuple[Counter[str], Counter[str]]:
    """How often a report of ``path`` opens files and lists folders, by their names."""
    environment = os.environ | {"PYTHONPATH": os.getcwd()}
    done = subprocess.run([sys.executable, "-c", _WATCHED, path], capture_output=True, check=True, env=environment)
    opened, listed = json.loads(done.stdout)
    return Counter(opened), Counter(listed)


def packed(folder: Path) -> Path:
    """A profile whose trace is packed."""
    shutil.copytree(HEALTHY, folder / "packed")
    trace = folder / "packed" / "ASCEND_PROFILER_OUTPUT" / "trace_view.json"
    trace.with_suffix(".json.gz").write_bytes(gzip.compress(trace.read_bytes()))
    trace.unlink()
    return folder / "packed"


def service(folder: Path) -> Path:
    """The output of msServiceProfiler, with its events."""
    write_service(folder / "service", "healthy", requests=30, trace=True)
    return folder / "service"


def test_a_report_opens_each_file_twice_at_most_and_lists_each_folder_once(tmp_path: Path) -> None:
    for path in (HEALTHY, HEALTHY / "ASCEND_PROFILER_OUTPUT" / "trace_view.json", packed(tmp_path), service(tmp_path)):
        opened, listed = looks_of(path)
        assert opened, path
        assert listed, path
        assert max(opened.values()) <= 2, opened
        assert max(listed.values()) == 1, listed


def test_a_job_opens_each_trace_for_its_ranks_and_for_its_path() -> None:
    opened, listed = looks_of(Path("fixtures/two_ranks"))
    assert sum(name.endswith("trace_view.json") for name in opened) == 2
    assert max(opened.values()) <= 3, opened
    assert max(listed.values()) == 1, listed


@pytest.mark.parametrize("name", ["text/level1/rank0_ascend_pt", "single_card", "db/level1/rank0_ascend_pt"])
def test_real_profiles(name: str) -> None:
    folder = os.environ.get("NPU_TUI_TRACES")
    if not folder:
        pytest.skip(reason=WITHOUT_TRACES)
    opened, listed = looks_of(Path(folder, name))
    texts = [count for file, count in opened.items() if not file.endswith(".db")]  # SQLite opens as it likes
    assert max(texts, default=0) <= 2, opened
    assert max(listed.values()) == 1, listed
