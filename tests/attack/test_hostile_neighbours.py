"""One bad profile, file or summary costs itself and nothing else; nothing beside a trace is waited for."""

from __future__ import annotations

import json
import os
import shutil
import tracemalloc
import zlib
from pathlib import Path

import pytest

from npu_tui.cli.main import main
from npu_tui.jobs.kept import SUFFIX
from npu_tui.jobs.model import RankProfile
from npu_tui.jobs.opening import open_job
from npu_tui.jobs.summary import read_summaries, write_summary
from npu_tui.load import cluster
from npu_tui.load import load as loading
from npu_tui.load.companions import read_document
from npu_tui.load.errors import InputError, walled
from npu_tui.load.formats import experts
from npu_tui.trace.side_file import read_regular

OUTPUT = "ASCEND_PROFILER_OUTPUT"
FILES = (
    "kernel_details.csv", "communication.json", "communication_matrix.json", "step_trace_time.csv", "op_statistic.csv",
    "memory_record.csv", "../profiler_info_0.json", "../profiler_metadata.json",
)  # fmt: skip


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    copy = tmp_path / "job" / "rank0_ascend_pt"
    shutil.copytree("fixtures/two_ranks/rank0_ascend_pt", copy)
    return copy


@pytest.mark.parametrize("names", [FILES[::2], FILES[1::2]], ids=["even", "odd"])
def test_a_fifo_is_not_waited_for(profile: Path, names: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    for name in names:
        file = profile / OUTPUT / name
        file.unlink(missing_ok=True)
        os.mkfifo(file)
    assert main(["ranks", str(profile.parent)]) == 0
    assert main(["report", str(profile), "--no-cache"]) == 0


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path)])
def test_what_is_no_file_is_unreadable(make: object, tmp_path: Path) -> None:
    path = tmp_path / "communication.json"
    make(path)  # type: ignore[operator]
    assert read_document(path).state == "unreadable"
    with pytest.raises(OSError, match=r"regular|directory"):
        read_regular(path)
    assert main(["check", "fixtures/healthy", "--baseline", str(path)]) == 3


def test_a_document_larger_than_the_bound_is_not_read_and_ends_at_a_hole(tmp_path: Path) -> None:
    path = tmp_path / "communication.json"
    path.touch()
    os.truncate(path, 64 << 30)
    assert read_document(path).state == "empty"
    path.write_bytes(b"12345")
    assert read_regular(path, 5) == b"12345"
    with pytest.raises(OSError, match="too large"):
        read_regular(path, 4)


@pytest.mark.parametrize("many", [b"[],", b'{"a":1},', b"["])
def test_a_document_that_would_take_far_more_memory_than_its_size_is_not_read(many: bytes, tmp_path: Path) -> None:
    path = tmp_path / "communication.json"
    path.write_bytes(b"[" + many * 4_000_000 + b"1]")
    document = read_document(path)
    assert (document.state, document.why) == ("unreadable", "File too large")


@pytest.mark.parametrize("name", ["communication.json", "communication_matrix.json", "../profiler_metadata.json"])
@pytest.mark.parametrize(
    "content", ['{"a":' * 5000 + "1" + "}" * 5000, "[" * 100_000, '{"step1":{"collective":{"hcom_a__1_' + "9" * 30]
)
def test_deep_and_endless_documents(profile: Path, name: str, content: str) -> None:
    (profile / OUTPUT / name).write_text(content)
    assert len(open_job(profile.parent, traces=False).ranks) == 1


def test_an_ordinal_beyond_64_bits(profile: Path) -> None:
    times = {"Start Timestamp(us)": "1.5", "Elapse Time(ms)": 1e400, "Wait Time(ms)": "abc"}
    operations = {"hcom_allReduce__1_99999999999999999999_1@1": {"Communication Time Info": times}}
    (profile / OUTPUT / "communication.json").write_text(json.dumps({"step1": {"collective": operations}}))
    assert len(open_job(profile.parent, traces=False).ranks) == 1


@pytest.mark.parametrize("error", [TypeError("a"), MemoryError(), OSError(5, "c")])
def test_a_rank_that_breaks_the_program_is_told(
    profile: Path, error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    other = profile.parent / "rank1_ascend_pt"
    shutil.copytree("fixtures/two_ranks/rank1_ascend_pt", other)
    load = loading.load

    def loaded(source: loading.Source) -> object:
        if "rank1" in str(source.opened):
            raise error
        return load(source)

    monkeypatch.setattr("npu_tui.jobs.rank_trace.load", loaded)
    job = open_job(profile.parent)
    assert [rank.rank for rank in job.ranks] == [0]
    assert [reason.code for reason in job.broken] == ["job.broken"]
    assert main(["check", str(profile.parent), "--max-rank-wait", "99%"]) == 1
    assert str(other) in capsys.readouterr().out
    assert main(["summarize", str(profile.parent), "-o", str(profile.parent / "s")]) == 3


def test_the_wall_lets_what_is_no_error_of_the_profile_through() -> None:
    with pytest.raises(KeyboardInterrupt), walled("a"):
        raise KeyboardInterrupt
    with pytest.raises(InputError, match="unexpected"), walled("a"):
        raise KeyError("x")


@pytest.fixture
def summary(tmp_path: Path) -> Path:
    folder = tmp_path / "summaries"
    folder.mkdir()
    for rank in (0, 1):
        write_summary(RankProfile(rank, Path(f"\udcff{rank}"), "json"), folder / f"{rank}-a{SUFFIX}")
    return folder


@pytest.mark.parametrize("of_zeros", [b"", b"\x90"], ids=["zeros", "empty lists"])
def test_a_small_summary_that_unpacks_to_millions(of_zeros: bytes, summary: Path) -> None:
    path = summary / f"0-a{SUFFIX}"
    held = zlib.decompress(path.read_bytes())
    path.write_bytes(zlib.compress(held + (of_zeros or bytes(1)) * (64 << 20)))
    assert path.stat().st_size < 100_000
    tracemalloc.start()
    profiles, said = read_summaries(sorted(summary.iterdir()))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [profile.rank for profile in profiles] == [1]
    assert [message.args["path"] for message in said] == [str(path)]
    assert peak < 32 << 20


def test_a_summary_that_is_no_file(summary: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (summary / f"0-a{SUFFIX}").unlink()
    os.mkfifo(summary / f"0-a{SUFFIX}")
    assert [rank.rank for rank in open_job(summary).ranks] == [1]


@pytest.mark.parametrize("unit", ["1,", "1,2\n"])
def test_loads_of_experts_take_little_more_memory_than_their_file(
    unit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, size = tmp_path / "decode_0.csv", 1 << 19
    file.write_text(unit * (size // len(unit)))
    monkeypatch.setattr(experts, "_LARGEST", size)
    tracemalloc.start()
    found = experts.read_expert_files([file])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [said.code for said in found.problems] == ["expert_files.malformed"]
    assert peak < 10 * size


def test_a_cluster_analysis_of_more_ranks_than_there_are_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cluster, "MOST_RANKS", 3)
    monkeypatch.setattr("npu_tui.jobs.opening.MOST_RANKS", 3)
    heading = "Step,Type,Index,Computing,Communication(Not Overlapped),Free\n"
    rows = "".join(f"1,rank,{rank},1,1,1\n2,rank,{rank},1,1,1\n" for rank in range(5))
    (tmp_path / "cluster_step_trace_time.csv").write_text(heading + rows)
    assert main(["ranks", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "3 ranks" in said
    assert "only the first 3 ranks are read" in said
