"""Summaries of ranks: the same however they are made, resumed where they were left, and a job again."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
import time
import zlib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import msgspec
import pytest
from written import fields_of

from npu_tui.cli.main import main
from npu_tui.jobs.model import LinkUse
from npu_tui.jobs.opening import open_job
from npu_tui.jobs.summarize import RankOutcome, sources_of, summarize_by_dask, summarize_in_process
from npu_tui.jobs.summary import read_summaries
from npu_tui.load.errors import InputError

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))
from many_ranks import write_job

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job of 12 ranks with one that is slow, from the files beside their traces."""
    folder = tmp_path_factory.mktemp("made") / "job"
    write_job(folder, 12, 4, 3, slow=7)
    return folder


@pytest.fixture(scope="module")
def summaries(job: Path) -> dict[str, bytes]:
    """What one process makes of it."""
    folder = job.parent / "alone"
    assert main(["summarize", str(job), "-o", str(folder)]) == 0
    return content(folder)


def content(folder: Path) -> dict[str, bytes]:
    """Every file in ``folder`` by its name."""
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def numbers(*values: int) -> bytes:
    """A column as a summary has it."""
    return b"".join(value.to_bytes(8, "little", signed=True) for value in values)


def deep(levels: int) -> list[Any]:
    """A list in a list, and so on."""
    found = msgspec.Raw(b"\x91" * levels + b"\x90")
    return [{"code": "job.broken", "args": {"path": found, "why": ""}}]


def report(path: Path, capsys: pytest.CaptureFixture[str]) -> dict:
    capsys.readouterr()
    assert main(["ranks", str(path), "--format", "json"]) == 0
    found = fields_of(capsys.readouterr().out)
    assert found["source"].pop("path") == str(path)
    return found


def test_summaries_are_the_job(job: Path, summaries: dict[str, bytes], capsys: pytest.CaptureFixture[str]):
    assert len(summaries) == 12
    found = report(job.parent / "alone", capsys)
    assert found == report(job, capsys)
    assert found["findings"][0]["ranks"] == [7]


def test_shards_together_are_the_whole_byte_for_byte(job: Path, summaries: dict[str, bytes], tmp_path: Path):
    for number in range(5):
        assert main(["summarize", str(job), "-o", str(tmp_path), "--shard", f"{number}/5"]) == 0
    assert content(tmp_path) == summaries


def test_processes_make_the_same_bytes(job: Path, summaries: dict[str, bytes], tmp_path: Path):
    assert main(["summarize", str(job), "-o", str(tmp_path), "--jobs", "2"]) == 0
    assert content(tmp_path) == summaries


def test_what_is_done_is_not_done_again(job: Path, tmp_path: Path):
    ranks = tmp_path / "job"
    shutil.copytree(job, ranks)
    folder = tmp_path / "summaries"
    folder.mkdir()
    sources = sources_of([ranks])
    assert {each.state for each in summarize_in_process(sources[:5], folder, False)} == {"new"}
    written = {file: file.stat().st_mtime_ns for file in folder.iterdir()}
    states = [each.state for each in summarize_in_process(sources, folder, False)]
    assert states == ["there"] * 5 + ["new"] * 7
    assert {file: file.stat().st_mtime_ns for file in written} == written
    changed = sources[0].path / "step_trace_time.csv"
    changed.write_text(changed.read_text().replace(".", "1.", 1))
    assert [each.state for each in summarize_in_process(sources, folder, False)] == ["new"] + ["there"] * 11
    assert len(list(folder.iterdir())) == 12


def test_a_rank_with_a_trace_keeps_all_that_was_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    ranks = FIXTURES / "two_ranks"
    assert main(["summarize", str(ranks), "-o", str(tmp_path), "--traces"]) == 0
    kept, read = report(tmp_path, capsys), report(ranks, capsys)
    assert not kept.pop("critical_path")["told"]  # it needs the traces themselves
    assert read.pop("critical_path")["told"]
    assert kept == read
    for ours, theirs in zip(open_job(tmp_path).ranks, open_job(ranks).ranks, strict=True):
        assert list(ours.notifies) == list(theirs.notifies)
        assert list(ours.seen) == list(theirs.seen)
        assert ours.findings == theirs.findings
        assert ours.lines == theirs.lines
        assert ours.work is not None
        assert theirs.work is not None
        assert ours.work.lost.tolist() == theirs.work.lost.tolist()


def test_a_broken_rank_is_told_by_both(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    ranks = tmp_path / "job"
    shutil.copytree(FIXTURES / "two_ranks", ranks)
    trace = next(ranks.glob("rank1_*/ASCEND_PROFILER_OUTPUT/trace_view.json"))
    for beside in trace.parent.iterdir():
        if beside != trace:
            beside.unlink()
    trace.write_bytes(b"no trace at all")
    folder = tmp_path / "summaries"
    assert main(["summarize", str(ranks), "-o", str(folder)]) == 3
    assert str(trace.parents[1]) in capsys.readouterr().err
    assert report(folder, capsys)["not_checked"] == report(ranks, capsys)["not_checked"]


def test_a_file_that_is_no_summary_is_told(summaries: dict[str, bytes], tmp_path: Path):
    for name, data in summaries.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "99-00000000-00.rank.npu").write_bytes(b"PAR1")
    found = open_job(tmp_path)
    assert [each.rank for each in found.ranks] == list(range(12))
    assert [each.code for each in found.broken] == ["job.no_summary"]


CALL = {
    "kinds": [["", "", ""]], "name": ["a"], "kind": numbers(0), "ordinal": numbers(0), "start": numbers(0),
    "end": numbers(1), "pair": numbers(-1),
}  # fmt: skip
SEEN = {"name": {"texts": ["a"], "code": b"\0\0\0\0"}, "peer": numbers(1), "after": numbers(1), "at_most": b"\1",
        "place": numbers(1)}  # fmt: skip
GROUP = {"name": "a", "first": 0, "stride": 1, "count": 1, "listed": []}
DAMAGED: dict[str, dict[str, Any]] = {
    "a rank without a number": {"profile": {"rank": None}},
    "a rank beyond 64 bits": {"profile": {"rank": (1 << 64) - 1}},
    "no groups": {"groups": None},
    "a call without a name": {"profile": {"calls": CALL | {"name": [None]}}},
    "calls of different length": {"profile": {"calls": CALL | {"start": b""}}},
    "half a number": {"profile": {"calls": CALL | {"start": b"\0\0\0\0"}}},
    "a call of an unknown kind": {"profile": {"calls": CALL | {"kind": numbers(99)}}},
    "a call that ends before it starts": {"profile": {"calls": CALL | {"start": numbers(5), "end": numbers(-(2**60))}}},
    "a time out of range": {"profile": {"calls": CALL | {"end": numbers(2**62)}}},
    "a name that is none of its texts": {"profile": {"seen": SEEN | {"name": {"texts": [], "code": b"\0\0\0\0"}}}},
    "a link without a speed": {
        "profile": {"links": [{"source": 0, "target": 1, "transport": "HCCS", "type": "", "size_mb": 1.0}]}
    },
    "a link of endless speed": {"profile": {"links": [LinkUse(0, 1, "HCCS", "", 1.0, float("inf"))]}},
    "a layout of three": {"profile": {"layout": {"tensor": 1, "pipeline": 1, "data": 1}}},
    "a group of a million million ranks": {"groups": [GROUP | {"count": 10**12}]},
    "a group of ranks beyond 64 bits": {"groups": [GROUP | {"count": 1 << 20, "stride": 1 << 61}]},
    "problems that are no messages": {"profile": {"problems": [1]}},
    "a map in a problem": {"profile": {"problems": [{"code": "job.twice", "args": {"rank": {"x": 1}, "path": ""}}]}},
    "problems in each other": {"profile": {"problems": deep(100_000)}},
    "words of a newer version": {"profile": {"problems": [{"code": "told.by.a.newer.version", "args": {}}]}},
    "words without what they are about": {"profile": {"problems": [{"code": "job.twice", "args": {}}]}},
    "an unreadable rank without a reason": {"broken": []},
    "another version": {"format": 5},
}


@pytest.mark.parametrize("damage", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_summary_is_told_and_the_others_are_read(
    summaries: dict[str, bytes], tmp_path: Path, damage: dict[str, Any]
):
    for name, data in summaries.items():
        (tmp_path / name).write_bytes(data)
    last = max(tmp_path.iterdir(), key=lambda file: int(file.name.partition("-")[0]))
    held = msgspec.msgpack.decode(zlib.decompress(last.read_bytes()))
    sound = {"profile": held["profile"] | {"calls": CALL, "seen": SEEN}, "groups": [GROUP]}
    for change, ranks in ((sound, 12), (sound | damage, 11)):
        changed = held | change | {"profile": sound["profile"] | change.get("profile", {})}
        last.write_bytes(zlib.compress(msgspec.msgpack.encode(changed)))
        found = open_job(tmp_path)
        assert [each.rank for each in found.ranks] == list(range(ranks))
        assert [each.code for each in found.broken] == ["job.no_summary"] * (12 - ranks)


def test_every_changed_byte_is_told(summaries: dict[str, bytes], tmp_path: Path):
    path = tmp_path / "0.rank.npu"
    data = next(iter(summaries.values()))
    for at in range(0, len(data), 37):
        path.write_bytes(data[:at] + bytes((data[at] ^ 1 << at % 8,)) + data[at + 1 :])
        ranks, told = read_summaries([path])
        assert (ranks, [each.code for each in told]) == ([], ["job.no_summary"])
        path.write_bytes(data[:at])
        assert read_summaries([path])[0] == []


def test_summaries_of_an_older_version_are_told(tmp_path: Path):
    (tmp_path / "0-a.rank.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError) as refused:
        open_job(tmp_path)
    assert refused.value.message.code == "job.no_summary"


@pytest.mark.parametrize(
    "words", [["--shard", "4/4"], ["--shard", "x"], ["--jobs", "0"], ["--jobs", "2", "--dask", "tcp://127.0.0.1:1"]]
)
def test_wrong_usage(job: Path, tmp_path: Path, words: list[str]):
    with pytest.raises(SystemExit) as ended:
        main(["summarize", str(job), "-o", str(tmp_path / "none"), *words])
    assert ended.value.code == 2
    assert not (tmp_path / "none").exists()


@pytest.mark.skipif(find_spec("distributed") is None, reason="Dask is not installed: pip install -e '.[cluster]'")
def test_a_cluster_makes_the_same_bytes_also_when_a_worker_dies(job: Path, summaries: dict[str, bytes], tmp_path: Path):
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=True,
        dashboard_address=None,
        local_directory=str(tmp_path / "dask"),
    ) as cluster:
        for worker in cluster.workers.values():
            worker.auto_restart = False  # the other one does the rest
        workers = [worker.pid for worker in cluster.workers.values()]
        assert len(set(workers)) == 2
        left = tmp_path / "left"
        killer = threading.Thread(target=kill_midway, args=(workers[0], left))
        killer.start()
        code = main(["summarize", str(job), "-o", str(left), "--dask", cluster.scheduler_address])
        killer.join()
    assert code == 0
    assert content(left) == summaries


def test_a_cluster_without_workers_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class KilledWorker(Exception):  # noqa: N818 - as Dask calls it
        pass

    def killed() -> RankOutcome:
        raise KilledWorker

    def completed(tasks: list[Any], timeout: float) -> Iterator[Any]:
        if len(tasks) == 12:
            yield tasks[0]
        raise TimeoutError

    client = MagicMock()
    client.map = lambda _, sources, **__: [MagicMock(result=killed) for _ in sources]
    client.scheduler_info.return_value = {"workers": {}}
    client.__enter__.return_value = client
    made = SimpleNamespace(
        Client=lambda **_: client, as_completed=completed, scheduler=SimpleNamespace(KilledWorker=KilledWorker)
    )
    monkeypatch.setattr("npu_tui.jobs.summarize.import_module", lambda _: made)
    outcomes = list(
        summarize_by_dask([SimpleNamespace(opened=place) for place in map(Path, "abcdefghijkl")], tmp_path, False, "x")
    )
    assert [outcome.state for outcome in outcomes] == ["broken"] * 12
    assert {outcome.why and outcome.why.code for outcome in outcomes} == {"job.no_worker"}


def kill_midway(worker: int, folder: Path) -> None:
    """End the worker once some summaries are written."""
    for _ in range(2_000):
        if folder.exists() and any(folder.iterdir()):
            break
        time.sleep(0.005)
    os.kill(worker, signal.SIGKILL)


def test_summaries_that_are_all_broken_are_refused(tmp_path: Path) -> None:
    (tmp_path / "0.rank.npu").write_bytes(b"PAR1")
    with pytest.raises(InputError):
        open_job(tmp_path)
