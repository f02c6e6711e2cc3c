"""Two jobs against each other: what changed, and which rank, stage or network it is."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import msgspec
import numpy as np
import pytest
from job_pairs import DIFFERENCES, pair, told
from made_roles import colocated
from roles import write_roles
from written import fields_of

import npu_tui
from npu_tui.cli.main import main
from npu_tui.gate.checks import against_job_checks
from npu_tui.jobs.against import JobComparison
from npu_tui.jobs.change_tables import job_changes
from npu_tui.jobs.heat import HeatSource
from npu_tui.jobs.job import Job
from npu_tui.jobs.model import Layout, RankProfile, StepTime
from npu_tui.jobs.opening import open_job, open_steps
from npu_tui.jobs.summary import write_summary
from npu_tui.output.envelope import report_schema
from npu_tui.trace.message import message

_SLOW = "one rank 10% slower"


@pytest.fixture
def cluster() -> Path:
    folder = os.environ.get("NPU_TUI_TRACES")
    if not folder:
        pytest.skip(reason="NPU_TUI_TRACES is not set: it names the folder of the real profiles")
    return Path(folder) / "cluster/cluster_analysis_output"


@pytest.mark.parametrize("name", DIFFERENCES)
def test_the_difference_is_named_with_its_ranks_and_price(name: str):
    said = told(pair(name, 8, 1))
    assert said.first
    assert said.alone
    assert said.off is None or said.off < 0.1
    assert said.within is not False


@pytest.mark.parametrize("name", ["nothing", _SLOW, "network twice as slow"])
def test_of_one_step_the_ranks_are_the_samples(name: str):
    said = told(pair(name, 16, 2, steps=1))
    assert (said.first, said.alone, said.verdict) == (True, True, "unsure")


def test_a_rank_that_only_waits_is_not_the_slow_one():
    found = pair(_SLOW, 8, 1)
    compared = JobComparison(found.base, found.new)
    slow = [row.rank for row in compared.ranks if row.verdict == "slower"]
    assert slow == [*found.ranks]
    assert all(row.verdict == "same" for row in compared.ranks if row.rank not in found.ranks)
    waiting = [row.delta("wait") for row in compared.ranks if row.rank // 4 == slow[0] // 4 and row.rank not in slow]
    assert min(waiting) > 0.5 * found.price
    parts = sum(new - base for _, base, new in compared.parts)
    assert parts == pytest.approx(compared.step.delta)


def test_without_groups_the_network_is_only_perhaps_at_fault():
    found = pair("network twice as slow", 8, 1, groups=False)
    compared = JobComparison(found.base, found.new)
    assert compared.transfers is None
    (change,) = job_changes(compared)
    assert (change.id, change.title.code) == ("DIFF.NETWORK", "against.network.exposed")
    assert change.delta_ns == pytest.approx(found.price, rel=0.1)


def _without(job: Job, *ranks: int) -> Job:
    return Job(job.path, [profile for profile in job.ranks if profile.rank not in ranks])


def test_a_rank_that_one_side_lacks_is_named_and_is_no_pass():
    found = pair("nothing", 8, 1)
    for base, new in ((found.base, _without(found.new, 3)), (_without(found.base, 3), found.new)):
        compared = JobComparison(base, new)
        assert compared.step.verdict == "unsure"
        (change,) = job_changes(compared)
        assert (change.id, change.ranks, change.title.args["ranks"]) == ("DIFF.RANKS", (3,), [3])
        assert [row.rank for row in compared.ranks] == [0, 1, 2, 4, 5, 6, 7]
        assert all(row.rank == row.base_rank for row in compared.ranks)


def test_a_rank_that_cannot_be_read_is_no_pass_and_a_slower_step_stays_so():
    found = pair("one stage 10% slower", 8, 1)
    broken = Job(found.new.path, found.new.ranks[:-1], [message("job.broken", path="rank7", why="")])
    assert JobComparison(found.base, broken).step.verdict == "slower"
    healthy = pair("nothing", 8, 1)
    broken = Job(healthy.new.path, healthy.new.ranks, [message("job.no_summary", path="rank7")])
    assert JobComparison(healthy.base, broken).step.verdict == "unsure"


def test_a_rank_with_fewer_steps_is_no_pass():
    found = pair("nothing", 8, 1)
    ranks = [msgspec.structs.replace(row, steps=row.steps[:5]) if row.rank == 2 else row for row in found.new.ranks]
    compared = JobComparison(found.base, Job(found.new.path, ranks))
    assert compared.step.verdict == "unsure"
    assert [change.title.code for change in job_changes(compared)] == ["against.fewer_steps"]


def test_jobs_that_are_divided_otherwise_have_stages_only():
    found = pair("one stage 10% slower", 8, 1)
    more = pair("nothing", 16, 1)
    compared = JobComparison(more.new, found.new)
    assert compared.pairing.way == "none"
    assert compared.ranks == []
    assert [(row.stage, row.counts, row.verdict) for row in compared.stages] == [
        (0, (8, 4), "same"),
        (1, (8, 4), "slower"),
    ]
    assert compared.stages[1].delta("work") == pytest.approx(found.price, rel=0.1)
    assert JobComparison(more.new, pair("nothing", 8, 1).base).step.verdict == "unsure"


def test_without_files_that_tell_groups_the_number_pairs_ranks():
    found = pair(_SLOW, 8, 1, groups=False)
    compared = JobComparison(found.base, found.new)
    assert compared.pairing.way == "number"
    assert [row.rank for row in compared.ranks if row.verdict == "slower"] == [*found.ranks]
    assert found.base.layout is None
    layouts = [Job(job.path, [msgspec.structs.replace(row, layout=layout) for row in job.ranks])
               for job, layout in ((found.base, Layout(2, 1, 4, 8)), (found.new, Layout(1, 1, 8, 8)))]  # fmt: skip
    assert JobComparison(*layouts).pairing.way == "none"


def test_the_pair_of_the_reference_has_not_changed(cluster: Path, tmp_path: Path):
    new = tmp_path / "cluster_analysis_output"
    shutil.copytree(cluster, new)
    compared = JobComparison(open_job(cluster), open_job(new))
    assert (compared.step.verdict, compared.computing.verdict) == ("same", "same")
    assert job_changes(compared) == []
    assert all(row.delta(name) == 0 for row in compared.ranks for name in ("work", "exposed", "total"))
    first, second = ({name: time / 1e3 for name, time in row.base.items()} for row in compared.stages)
    assert [first[name] for name in ("computing", "free", "total")] == pytest.approx([75514.589, 67709.191, 293807.625])
    assert [second[name] for name in ("computing", "free", "bubble")] == pytest.approx(
        [79885.012, 85691.614, 181582.526]
    )
    steps = new / "cluster_step_trace_time.csv"
    rows = [line.split(",") for line in steps.read_text().splitlines()]
    slow = next(row for row in rows if row[1:3] == ["rank", "11"])
    slow[3] = str(float(slow[3]) + 8_000)
    steps.write_text("\n".join(map(",".join, rows)) + "\n")
    (change,) = job_changes(JobComparison(open_job(cluster), open_job(new)))
    assert (change.id, change.ranks) == ("DIFF.RANK", (11,))
    assert change.delta_ns == pytest.approx(8e6)


def test_one_step_of_two_ranks_decides_nothing_but_computing(cluster: Path):
    base, new = (open_job(cluster.parents[1] / "text" / level, beside_only=True) for level in ("level0", "level1"))
    compared = JobComparison(base, new)
    assert (compared.step.verdict, compared.computing.verdict) == ("unsure", "same")
    assert {row.verdict for row in compared.ranks} == {"unsure"}
    assert [round(row.delta("computing")) for row in compared.ranks] == [46_283, 65_122]


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """Summaries of a pair with one slow rank."""
    found = pair(_SLOW, 8, 1)
    for name, job in (("base", found.base), ("new", found.new)):
        (tmp_path / name).mkdir()
        for profile in job.ranks:
            write_summary(profile, tmp_path / name / f"{profile.rank}.rank.npu")
    return tmp_path / "base", tmp_path / "new"


def test_summaries_are_compared_in_every_format(folders: tuple[Path, Path], capsys: pytest.CaptureFixture[str]):
    words = ["compare", *map(str, folders)]
    slow = pair(_SLOW, 8, 1).ranks[0]
    assert main([*words, "--format", "json"]) == 0
    said = fields_of(capsys.readouterr().out)
    assert (said["kind"], said["paired_by"]) == ("compare_jobs", "place")
    assert [row["rank"] for row in said["ranks"] if row["verdict"] == "slower"] == [slow]
    assert said["findings"][0]["ranks"] == [slow]
    assert sum(part["delta_us"] for part in said["parts"]) == pytest.approx(said["step"]["delta_us"], abs=0.01)
    known = report_schema("compare_jobs")["$defs"]
    own, sections = (known[name]["properties"].keys() for name in ("ComparedJobs", "ComparedJobsSections"))
    assert set(said) == own - {"sections"} | sections
    for form in ("text", "markdown", "html"):
        assert main([*words, "--format", form]) == 0
        out = capsys.readouterr().out
        assert f"rank {slow} works" in out
    assert "work since the base" in " ".join(out.split())  # the page has a map of the changes
    assert main([*words, "--ignore", "DIFF.RANK", "--format", "json"]) == 0
    assert fields_of(capsys.readouterr().out)["findings"] == []


def test_jobs_are_compared_in_python(folders: tuple[Path, Path]):
    base, new = map(npu_tui.open_job, folders)
    compared = base.compare(new)
    slow = pair(_SLOW, 8, 1).ranks[0]
    assert (compared.data.findings[0].ranks, compared.verdict) == ([slow], compared.data.step.verdict)
    assert f"rank {slow} works" in compared.text()
    assert "<svg" in compared.html()


def test_an_option_of_profiles_is_refused(folders: tuple[Path, Path], capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as stopped:
        main(["compare", *map(str, folders), "--step", "3"])
    assert stopped.value.code == 2
    assert "--step does not go with two jobs" in capsys.readouterr().err


def test_a_rank_of_a_role_is_named_with_it_and_the_step_is_that_of_all_roles(tmp_path: Path):
    jobs = []
    for more in (0.0, 9.0):
        folder = tmp_path / str(more)
        work = colocated(lambda step, rank, more=more: more * rank, 2, 5, spread=0.2, after=(("actor_update", 25.0),))
        write_roles(folder, work)
        jobs.append(open_steps(folder))
    compared = JobComparison(*jobs)
    (change,) = job_changes(compared)
    assert (change.id, change.ranks, change.title.args["role"]) == ("DIFF.RANK", (1,), "rollout_generate")
    assert (change.delta_ns, compared.step.delta) == (pytest.approx(9e9, rel=0.1), pytest.approx(9e9, rel=0.1))
    assert compared.step.verdict == "slower"
    assert {row.verdict for row in compared.ranks if row.role == "actor_update"} == {"same"}
    rollout = next(part for part in jobs[1].parts if part.role == "rollout_generate")
    heat = HeatSource(rollout, compared).heat("change", "step")
    assert np.nanmean(heat.values, axis=1) == pytest.approx([0, 9e9], abs=1e9)


_HEADER = "Step,Computing,Communication(Not Overlapped),Overlapped,Communication,Free,Stage,Bubble,Preparing"


def _written(folder: Path, slow: float = 0.0) -> Path:
    """Four ranks of five steps; rank 2 works ``slow`` us longer in each."""
    for rank in range(4):
        more = slow if rank == 2 else 0.0
        rows = [
            f"{k},{900 + more + rank + k / 4},{200 + slow - more},0,{200 + slow - more},{100 + k / 8},1,0,0"
            for k in range(5)
        ]
        output = folder / f"rank_{rank}_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
        output.mkdir(parents=True)
        (output.parent / f"profiler_info_{rank}.json").write_text(json.dumps({"rank_id": rank}))
        (output / "step_trace_time.csv").write_text("\n".join([_HEADER, *rows]) + "\n")
    return folder


def test_a_gate_holds_a_job_against_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    base, same, slow = (
        _written(tmp_path / name, more) for name, more in (("base", 0.0), ("same", 0.0), ("slow", 100.0))
    )
    assert main(["check", str(same), "--against", str(base)]) == 0
    assert "own work" in capsys.readouterr().out
    assert main(["check", str(slow), "--against", str(base), "--format", "json"]) == 1
    work = fields_of(capsys.readouterr().out)["checks"][-1]
    assert (work["id"], work["status"], work["text"]) == ("work", "fail", "slower, rank 2")
    assert (work["base_us"], work["value_us"]) == (1002.938, 1102.938)
    assert main(["check", str(slow), "--against", str(base), "--tolerance", "20%"]) == 0
    shutil.rmtree(same / "rank_1_ascend_pt")
    assert main(["check", str(same), "--against", str(base)]) == 1
    assert "1 rank has files in the base only: 1" in capsys.readouterr().out


def test_damage_never_makes_a_slower_job_pass(tmp_path: Path):
    base, slow = _written(tmp_path / "base"), _written(tmp_path / "slow", 100.0)
    for rank in (0, 2):
        for side in (base, slow):
            file = side / f"rank_{rank}_ascend_pt/ASCEND_PROFILER_OUTPUT/step_trace_time.csv"
            data = file.read_bytes()
            for end in range(0, len(data), 97):
                file.write_bytes(data[:end])
                jobs = [open_job(path, beside_only=True) for path in (base, slow)]
                checks = against_job_checks(JobComparison(*jobs))
                assert any(check.status != "pass" for check in checks), (side, rank, end)
            file.write_bytes(data)


def test_a_stage_that_one_job_tells_holds_for_both():
    found = pair(_SLOW, 8, 1)
    bare = Job(found.new.path, [msgspec.structs.replace(row, layout=None, groups={}) for row in found.new.ranks])
    for compared in (JobComparison(found.base, bare), JobComparison(bare, found.base)):
        assert compared.pairing.way == "number"
        assert [row.stage for row in compared.ranks] == [0, 0, 0, 0, 1, 1, 1, 1]
        assert [row.counts for row in compared.stages] == [(4, 4), (4, 4)]
        assert [row.rank for row in compared.ranks if row.verdict in ("slower", "faster")] == [*found.ranks]


def test_parts_sum_to_the_step_where_ranks_miss_steps():
    found = pair(_SLOW, 8, 1)
    rows = found.new.ranks
    ranks = [msgspec.structs.replace(row, steps=row.steps[: 9 - row.rank % 3]) for row in rows]
    compared = JobComparison(found.base, Job(found.new.path, ranks))
    assert sum(new - base for _, base, new in compared.parts) == pytest.approx(compared.step.delta)


def test_noisy_steps_hide_no_large_change_and_one_stall_is_none():
    draw = np.random.default_rng(1)

    def job(slow: int | None, every: float = 1.0, stall: bool = False) -> Job:
        ranks = []
        for rank in range(4):
            work = draw.normal(10e6, 0.35e6, 6) * every * (1.15 if rank == slow else 1.0)
            work[3] += 30e6 * (stall and rank == 2)
            steps = [StepTime(str(k), int(time), 1_000_000, 0, int(time) + 1_000_000) for k, time in enumerate(work)]
            ranks.append(RankProfile(rank, Path(f"rank{rank}"), "companions", steps=tuple(steps)))
        return Job(Path("job"), ranks)

    for seed in range(5):
        draw = np.random.default_rng(seed)
        (change,) = [each for each in job_changes(JobComparison(job(None), job(1))) if each.id != "DIFF.NETWORK"]
        assert (change.id, change.ranks) == ("DIFF.RANK", (1,))
        (change,) = job_changes(JobComparison(job(None), job(None, 1.12)))
        assert (change.id, change.ranks) == ("DIFF.WORK", (0, 1, 2, 3))
        assert job_changes(JobComparison(job(None), job(None))) == []
        assert [row.verdict for row in JobComparison(job(None), job(None, stall=True)).ranks].count("slower") == 0


def test_a_stage_whose_ranks_tell_no_step_has_no_row():
    more, found = pair("nothing", 16, 1).new, pair("nothing", 8, 1).new
    bare = [msgspec.structs.replace(row, steps=() if row.rank < 4 else row.steps) for row in found.ranks]
    compared = JobComparison(more, Job(found.path, bare))
    assert (compared.pairing.way, [row.stage for row in compared.stages]) == ("none", [1])
