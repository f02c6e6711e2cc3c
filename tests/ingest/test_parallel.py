"""Several readers give the trace that one gives, wherever the file is cut, and whatever becomes of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from compare import assert_equal
from documents import Document, documents, render
from equality import assert_same, assert_same_events
from hypothesis import given, settings
from hypothesis import strategies as st
from pretended import PretendedWorkers
from reference import read
from refusals import refused, said

from npu_tui.ingest import load as loading
from npu_tui.ingest.args.json_args import json_args
from npu_tui.ingest.errors import Cancelled, WorkerError
from npu_tui.ingest.json.reading.parallel import range_cuts
from npu_tui.ingest.json.reading.workers import ALONE_BYTES, Workers, worker_count
from npu_tui.ingest.load import load

FIXTURES = ["dispatch_bound", "healthy", "msprof_two_devices", "kineto", "mindspore", "level0"]
SIZES = st.integers(16, 400) | st.sampled_from([64, 1 << 16])


@settings(max_examples=50)
@given(documents(), SIZES, st.integers(8, 600), st.integers(1, 4), st.integers(0, 99))
def test_any_cuts_give_what_the_reference_reader_gives(
    tmp_path_factory: pytest.TempPathFactory, document: Document, chunk: int, length: int, workers: int, seed: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "trace_view.json"
    path.write_bytes(document.data)
    trace = load(path, chunk_size=chunk, workers=PretendedWorkers(workers, seed), range_bytes=length)
    assert_equal(trace, read(document.data))
    events = [json.loads(event) for event in document.events]
    assert [json_args(trace).event(ordinal) for ordinal in range(len(events))] == events


@settings(max_examples=50)
@given(documents(), st.integers(8, 600), st.integers(0, 99), st.data())
def test_a_file_cut_anywhere_gives_the_same_with_any_readers(
    tmp_path_factory: pytest.TempPathFactory, document: Document, length: int, seed: int, data: st.DataObject
) -> None:
    path = tmp_path_factory.getbasetemp() / "trace_view.json"
    path.write_bytes(document.data[: data.draw(st.integers(document.spans[0][1], len(document.data)))])
    alone = load(path, chunk_size=64)
    assert_same(alone, load(path, chunk_size=64, workers=PretendedWorkers(3, seed), range_bytes=length))


@pytest.mark.parametrize("name", FIXTURES)
def test_fixtures_are_the_same_to_the_bit(name: str) -> None:
    alone = load(f"fixtures/{name}")
    for workers, length in ((1, 100_000), (2, 30_000), (4, 7_000)):
        together = load(f"fixtures/{name}", workers=PretendedWorkers(workers, length), range_bytes=length)
        assert_same(alone, together)
    assert_same_events(alone, together, 7)


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_processes_give_the_same_to_the_bit(workers: int) -> None:
    alone = load("fixtures/dispatch_bound")
    assert_same(alone, load("fixtures/dispatch_bound", workers=Workers(workers), range_bytes=50_000))


def test_a_range_within_nested_objects_is_read_again(tmp_path: Path) -> None:
    """Objects in an argument look like events: readers that begin among them find out at their end."""
    inner = ", ".join(f'{{"ph": "X", "name": "inner{i}", "ts": "{i}"}}' for i in range(400))
    outer = '{"ph": "X", "name": "outer", "pid": 1, "tid": 1, "ts": "5.000", "dur": 1, "args": {"list": ['
    outer += inner + "]}}"
    plain = [f'{{"ph": "X", "name": "n{i}", "pid": 1, "tid": 1, "ts": "{10 + i}.000", "dur": 0.5}}' for i in range(200)]
    path = tmp_path / "trace_view.json"
    path.write_bytes(render([*plain[:100], outer, *plain[100:]]).data)
    alone = load(path)
    assert len(alone.slices) == 201
    for length in (300, 1000, 5000):
        workers = PretendedWorkers(2, length)
        assert_same(alone, load(path, workers=workers, range_bytes=length))
        assert workers.asked > 3


def test_what_follows_the_array_is_not_read(tmp_path: Path) -> None:
    events = [f'{{"ph": "X", "pid": 1, "tid": 1, "name": "n{i}", "ts": "{i}.000", "dur": 1}}' for i in range(50)]
    path = tmp_path / "trace_view.json"
    trailing = ", ".join(f'{{"ph": "X", "name": "no{i}"}}' for i in range(500))
    path.write_text(f'{{"traceEvents": [{", ".join(events)}], "stackFrames": [{trailing}]}}')
    alone = load(path)
    assert len(alone.slices) == 50
    assert_same(alone, load(path, workers=PretendedWorkers(3), range_bytes=500))


@pytest.mark.parametrize("size", [1, 5_000, ALONE_BYTES, 10**9, 10**11])
@pytest.mark.parametrize("workers", [1, 2, 8])
def test_cuts_ascend_and_cover_the_file(size: int, workers: int) -> None:
    cuts = range_cuts(1, size, workers)
    assert cuts[0] == 1
    assert cuts == sorted(set(cuts))
    assert cuts[-1] < max(size, 2)


def test_small_files_are_read_by_this_process() -> None:
    assert worker_count(ALONE_BYTES - 1) == 0
    assert 1 <= worker_count(10**10) <= 8


# --- what becomes of the processes


def children() -> list[int]:
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(os.getpid())], capture_output=True, text=True)
    return [int(pid) for pid in listed.stdout.split()]


def test_a_killed_worker_is_one_line() -> None:
    workers = Workers(2)
    os.kill(workers._processes[1].pid, signal.SIGKILL)
    with refused("signal 9", WorkerError) as caught:
        load("fixtures/healthy", workers=workers, range_bytes=20_000)
    assert "\n" not in said(caught.value)
    assert all(process.returncode is not None for process in workers._processes)


def test_a_worker_killed_in_the_middle_is_one_line() -> None:
    workers = Workers(2)

    def kill(done: int, total: int, events: int) -> bool:
        if events:
            workers._processes[0].kill()
        return True

    with refused("signal 9", WorkerError):
        load("fixtures/healthy", kill, workers=workers, range_bytes=5_000)


def test_cancelling_leaves_no_process() -> None:
    workers = Workers(2)
    with pytest.raises(Cancelled):
        load("fixtures/healthy", lambda done, total, events: False, workers=workers, range_bytes=5_000)
    assert all(process.returncode is not None for process in workers._processes)


def test_workers_end_with_the_process_that_started_them() -> None:
    program = (
        "import os, signal; from npu_tui.ingest.json.reading.workers import Workers; w = Workers(2);"
        "print(*[p.pid for p in w._processes], flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    for pid in map(int, done.stdout.split()):
        for _ in range(500):
            if not _lives(pid):
                break
            time.sleep(0.02)
        assert not _lives(pid)


def _lives(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_file_that_vanishes_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "trace_view.json"
    path.write_bytes(render(['{"ph": "X", "ts": "1.000", "name": "a"}'] * 50).data)
    start = loading._array_start

    def vanish(*arguments: object) -> int:
        path.unlink()
        return start(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(loading, "_array_start", vanish)
    with refused("No such file"):
        load(path, workers=Workers(1), range_bytes=100)


def test_early_traces_grow_into_the_whole_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_FIRST_SECONDS", "_EARLY_SECONDS"):
        monkeypatch.setattr(loading, name, 0.0)
    seen = []
    whole = load("fixtures/healthy", workers=PretendedWorkers(2), range_bytes=9_000, early=seen.append)
    assert len(seen) >= 2
    counts = [len(trace.slices) for trace in seen]
    assert counts == sorted(counts)
    assert counts[-1] <= len(whole.slices)
    assert all(not len(trace.links) for trace in seen)
    assert_same(whole, load("fixtures/healthy"))


def test_a_name_that_is_no_text_is_read_by_processes(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xc4\xe3.json"))
    path.write_bytes(Path("fixtures/healthy/ASCEND_PROFILER_OUTPUT/trace_view.json").read_bytes())
    assert len(load(path, workers=Workers(1)).slices) == len(load("fixtures/healthy").slices)
