"""Pipelines from the traces of their ranks; ``pipeline_jobs.py`` has more situations, with 20 seeds each."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from msgspec.structs import replace as structs_replace
from pipeline_jobs import SITUATIONS, Spec, healthy, is_right, job_of, what_ifs, write
from written import fields_of

from npu_tui.analysis.graph import plan_of, planned
from npu_tui.analysis.questions import UnknownChangeError
from npu_tui.cli.main import main
from npu_tui.jobs.findings import job_findings
from npu_tui.jobs.job import Job
from npu_tui.jobs.opening import open_job
from npu_tui.jobs.part_tables import PASSES
from npu_tui.jobs.passes import PipelineRun, _layers, layers_even, layers_of_even
from npu_tui.jobs.pipeline import PARTS, Pipelines
from npu_tui.jobs.several import _slow_passes
from npu_tui.jobs.summary import read_summaries, write_summary
from npu_tui.output.job_document import job_document
from npu_tui.output.job_report import job_report
from npu_tui.output.job_whatif import job_remedies, job_whatif
from npu_tui.output.statement import written_document
from npu_tui.strings import words

_SLOW = "middle stage slow"


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> tuple[Spec, Job]:
    """Four stages, the third of which takes longer."""
    spec = SITUATIONS[_SLOW][0]
    return spec, job_of(spec, tmp_path_factory.mktemp("pipeline"))[0]


def test_a_slow_stage_is_named_first_at_its_price(slow: tuple[Spec, Job]):
    spec, job = slow
    found = job_findings(job)
    assert is_right(_SLOW, found)
    price = write(spec, None) - write(healthy(spec), None)
    assert found[0].gain_ns is not None
    assert found[0].gain_ns / spec.steps == pytest.approx(price, rel=0.1)
    # The evidence is its longest passes, on the clock of its device.
    start = job.ranks[2].passes.start.tolist()
    assert {place.rank for place in found[0].evidence} == {2}
    assert {place.start for place in found[0].evidence} <= set(start)


def test_the_parts_of_a_bubble_add_up(slow: tuple[Spec, Job]):
    spec, job = slow
    runs = job.pipelines.runs
    assert [(run.step, run.plan.schedule, run.plan.micro) for run in runs] == [
        (str(step), "1f1b", spec.micro) for step in (5, 6, 7)
    ]
    for run, parts in zip(runs, job.pipelines.parts.tolist(), strict=True):
        assert sum(parts) == run.length
        assert sum(run.idle(stage) for stage in range(4)) == pytest.approx(4 * sum(parts[1:]), abs=2)
        of_part = dict(zip(PARTS, parts, strict=True))
        assert of_part["fill"] == pytest.approx(3 / spec.micro * of_part["compute"], rel=1e-6)
        assert of_part["imbalance"] > 0.08 * run.length
        assert of_part["rest"] < 1e-3 * run.length


def test_other_numbers_of_micro_batches(slow: tuple[Spec, Job]):
    spec, job = slow
    for _, predicted, simulated in what_ifs(spec, job):
        assert predicted == pytest.approx(simulated, rel=0.03)


def test_a_pipeline_survives_a_summary(slow: tuple[Spec, Job], tmp_path: Path):
    _, job = slow
    for profile in job.ranks:
        write_summary(profile, tmp_path / f"{profile.rank}.rank.npu")
    ranks, said = read_summaries(sorted(tmp_path.iterdir()))
    assert not said
    again = Job(tmp_path, ranks).pipelines
    assert (again.parts == job.pipelines.parts).all()


@pytest.mark.parametrize(
    "name",
    [
        "interleaved, late messages",
        "computed again, third slow",
    ],
)
def test_other_schedules(name: str, tmp_path: Path):
    spec = replace(SITUATIONS[name][0], steps=1)
    job, step = job_of(spec, tmp_path)
    found = job_findings(job)
    assert is_right(name, found)
    assert found[0].gain_ns is not None
    assert found[0].gain_ns / spec.steps == pytest.approx(step - write(healthy(spec), None), rel=0.1)


def test_healthy_replicas_are_silent(tmp_path: Path):
    job, _ = job_of(replace(SITUATIONS["even, replicas"][0], steps=2), tmp_path)
    assert [finding.id for finding in job_findings(job) if finding.severity != "info"] == []


@pytest.mark.few(1)
@pytest.mark.parametrize(("stages", "micro"), [(2, 2), (3, 5), (4, 4)])
def test_few_micro_batches_have_the_price_of_smaller_ones(stages: int, micro: int, tmp_path: Path):
    spec = Spec(stages=stages, micro=micro, steps=2)
    job, step = job_of(spec, tmp_path)
    found = [finding for finding in job_findings(job) if finding.severity != "info"]
    assert [(finding.id, finding.ranks) for finding in found] == [("PIPELINE.BUBBLE", tuple(range(stages)))]
    size = micro / (2 * stages)
    forward, backward = round(spec.forward * size), round(spec.backward * size)
    smaller = write(replace(spec, micro=2 * stages, forward=forward, backward=backward), None)
    assert (found[0].gain_ns or 0) / spec.steps == pytest.approx(step - smaller, rel=0.1)


@pytest.mark.parametrize(
    ("kinds", "layers"),
    [
        ([*[1, 2, 3, 2, 1, 4] * 7, 9], 7),
        ([8, 8, *[1, 2, 1, 2, 1, 3] * 3], 3),
        ([5, *[1, 1, 2, 3, 1, 1, 2, 4] * 2, 6, 7], 2),
        ([1, 2, 3, 4, 5, 6], 1),
    ],
)
def test_layers_are_what_a_pass_repeats(kinds: list[int], layers: int):
    assert _layers(np.array(kinds)) == layers


def test_even_stages_have_whole_layers():
    """The last stage has the head of the model besides its layers: nobody can move a part of a layer."""
    plan = planned("1f1b", 4, 8, 1)
    assert plan is not None
    layers, head = np.array([3, 3, 7, 3]), np.array([0, 0, 0, 1.5])
    time = (1_000_000 * (layers + head))[plan.stage].astype(np.int64)
    rest = np.zeros_like(time)
    end = plan.ends(time[None].astype(float))[0].astype(np.int64)
    run = PipelineRun((0, 1, 2, 3), "1", plan, end - time, end, rest, rest > 0, rest, np.zeros(4, np.int64), layers)
    assert sorted(layers_of_even(plan, time.astype(float), layers).tolist()) == [3, 4, 4, 5]
    even = (1_000_000 * (np.array([5, 4, 4, 3]) + head))[plan.stage]
    known, unknown = (
        Pipelines([structs_replace(run, layers=told)]).gains(layers_even) for told in (layers, layers // layers)
    )
    assert known == pytest.approx(run.length - plan.length(even[None])[0], rel=0.05)
    assert unknown > known


@pytest.mark.parametrize(
    ("layers", "tower", "form"),
    [((1, 1, 1, 1), 1, "_more"), ((2, 2, 2, 2), 0.9, None), ((6, 2, 2, 2), 0, "")],
)
def test_what_whole_layers_do_not_even_is_told_where_it_is_more_than_one(layers, tower, form):
    """A tower of images in front of the layers, of which each stage but the first has what it can have."""
    plan = planned("1f1b", 4, 8, 1)
    assert plan is not None
    count = np.array(layers) + np.array([1, 0, 0, 0]) * (form == "_more")  # it repeats itself as a layer does
    time = (1_000_000 * (np.array(layers) + np.array([tower, 0, 0, 0])))[plan.stage].astype(np.int64)
    end, rest = plan.ends(time[None].astype(float))[0].astype(np.int64), np.zeros_like(time)
    run = PipelineRun((0, 1, 2, 3), "1", plan, end - time, end, rest, rest > 0, rest, np.zeros(4, np.int64), count)
    runs = Pipelines([run])
    job = SimpleNamespace(pipelines=runs, length=runs.total(), steps=["1"], ranks=(), stage=lambda rank: None)
    found = list(_slow_passes(job))
    assert [each.detail.code for each in found] == ([] if form is None else [f"job.passes.detail{form}"])
    if form == "_more":
        alike = plan.length(1_000_000.0 * np.ones((1, len(time))))[0]
        assert found[0].gain_ns == pytest.approx(run.length - alike, rel=0.05)


@pytest.mark.parametrize(
    ("kinds", "schedules"),
    [
        (["FFBB", "FBFB"], ["1f1b"]),
        (["FFBB", "FFBB"], ["gpipe"]),
        (["FBFB", "FFBB"], []),
        (["FFFFFBFBFBBBBB", "FFFBFBFBFBFBBB"], []),
        (["FB" * 5000, "FB" * 5000], []),
    ],
)
def test_schedules_are_known_by_their_order(kinds: list[str], schedules: list[str]):
    assert [plan.schedule for plan in plan_of(kinds, wraps=None)] == schedules


def test_an_interleaved_pipeline_fills_faster():
    """Two chunks a stage: a bubble of half of (stages - 1) passes, as Megatron says."""
    plain, chunked = planned("1f1b", 4, 8, 1), planned("interleaved", 4, 8, 2)
    assert plain is not None
    assert chunked is not None
    assert plain.length(np.where(plain.kind == 0, 2, 4)[None]).tolist() == [(8 + 3) * 6]
    assert chunked.length(np.where(chunked.kind == 0, 1, 2)[None]).tolist() == [(8 + 3 / 2) * 6]


def test_a_real_pipeline_of_two_stages():
    """The bubble of a recorded job: its parts were computed by hand from communication.json and kernel_details.csv."""
    folder = os.environ.get("NPU_TUI_TRACES")
    if not folder:
        pytest.skip(reason="NPU_TUI_TRACES is not set: it names the folder of the real profiles")
    job = open_job(Path(folder) / "job4")
    runs = job.pipelines
    assert [(run.ranks, run.plan.schedule, run.plan.micro, run.length) for run in runs.runs] == [
        ((0, 2), "1f1b", 2, 648_008_360)
    ]
    parts = dict(zip(PARTS, (runs.parts[0] / 1e6).round(3).tolist(), strict=True))
    expected = {"compute": 405.046, "fill": 202.523, "imbalance": 35.458, "variation": 3.251, "transfer": 1.731}
    assert parts == pytest.approx(expected | {"rest": 0}, abs=0.002)
    passes = (runs.runs[0].time / 1e6).round(3).tolist()
    assert passes[:4] == [74.105, 80.519, 83.294, 96.212]
    assert [passes[4] + passes[5], passes[6] + passes[7]] == pytest.approx([238.213, 237.748], abs=0.002)
    assert [reason.code for reason in runs.left_out] == ["job.pipeline.no_kernels"]
    assert runs.left_out[0].args["ranks"] == [1, 3]


def test_a_report_of_a_pipeline(slow: tuple[Spec, Job]):
    """The bubble in one sentence, and the tables; a page has a picture of the longest step."""
    _, job = slow
    report = job_report(job)
    assert [row.schedule for row in report.pipelines] == ["1f1b"] * 3
    assert [row.stage for row in report.stages] == [0, 1, 2, 3]
    assert max(report.stages, key=lambda row: row.gain_us).stage == 2
    assert len(report.passes) == 4 * 16
    longest = max(row.length_us for row in report.pipelines)
    assert max(row.start_us + row.duration_us for row in report.passes) == pytest.approx(longest)
    text = written_document(job_document(report), "text")
    mean = job.pipelines.parts.mean(axis=0) / 1e6
    assert f"a stage waits {mean[1:].sum():.2f} ms" in " ".join(text.split())
    page = written_document(job_document(report, job), "html")
    assert page.count("backward 7") == 4


def test_tables_of_a_pipeline(slow: tuple[Spec, Job]):
    """Parts and passes are the same figures in every table; what a stage waited for is its idle time."""
    _, job = slow
    rows = PASSES.records(job)
    assert len(rows) == 3 * 64
    run = job.pipelines.runs[0]
    of_stage = [row for row in rows if row.step == "5" and row.stage == 1]
    assert [row.micro_batch for row in of_stage if row.kind == "forward"] == list(range(8))
    last = max(row.start_us + row.duration_us for row in rows if row.step == "5")
    end = of_stage[-1].start_us + of_stage[-1].duration_us
    assert sum(row.waited_us for row in of_stage) + last - end == pytest.approx(run.idle(1) / 1e3, abs=0.1)
    assert {row.rank: row.start_ns for row in of_stage}[1] == int(job.ranks[1].passes.start[15])


def test_what_if_of_a_job(slow: tuple[Spec, Job], capsys: pytest.CaptureFixture[str]):
    """Changes of its pipelines by the command, one after another; a job that was given is replayed as recorded."""
    spec, job = slow
    path = str(job.path)
    assert main(["whatif", path, "stage 2 as others", "16 micro batches", "--format", "json"]) == 0
    found = fields_of(capsys.readouterr().out)
    assert found["error"] < 1e-4
    stage, micro = found["changes"]
    price = write(spec, None) - write(healthy(spec), None)
    assert stage["gain_us"] * 1e3 == pytest.approx(price, rel=0.1)
    longer = write(replace(healthy(spec), micro=16), None) - write(healthy(spec), None)
    assert -micro["gain_us"] * 1e3 == pytest.approx(longer, rel=0.03)
    assert (found["micro_batches"], found["micro_batches_after"]) == (8, 16)
    helping = [row.text for row in job_remedies(job).changes]
    assert helping == ["stage 2 as others", "stages even"]
    with pytest.raises(UnknownChangeError):
        job_whatif(job, ["kernel MatMul x0"])
    assert job_whatif(job, ["stage 2 as others"]).gain_us == stage["gain_us"]


def test_a_rank_alone_in_its_stage_is_no_slow_rank(slow: tuple[Spec, Job]):
    """No other rank does its work: that its stage takes longer is said once, as a matter of stages."""
    _, job = slow
    assert [finding.id for finding in job_findings(job) if finding.severity != "info"] == ["RANK.STAGE"]


@pytest.mark.parametrize("told", [True, False])
def test_a_slow_stage_beside_a_lost_one_is_named(told: bool, tmp_path: Path):
    """What it costs the step depends on the lost stage, which nobody knows: only even layers are told."""
    spec = Spec(slow=(2, 0.35), lost=(1,), told=told, steps=1)
    job, step = job_of(spec, tmp_path)
    found = [finding for finding in job_findings(job) if finding.severity != "info"]
    assert [reason.code for reason in job.pipelines.left_out] == ["job.pipeline.lacks" if told else "job.pipeline.lost"]
    assert [(finding.id, finding.ranks, finding.detail.code) for finding in found] == [
        ("RANK.STAGE", (2,), "job.stage.detail")
    ]
    assert 0 < (found[0].gain_ns or 0) < step - write(healthy(spec), None)


@pytest.mark.parametrize(
    "spec",
    [
        Spec(slow=(2, 0.35), lost=(2,), told=False),
        Spec(slow=(0, 0.35), lost=(0,)),
        Spec(slow=(1, 0.4), lost=(1,), schedule="interleaved", chunks=2),
        Spec(lost=(2,), told=False),
        Spec(lost=(0,)),
    ],
)
def test_what_a_lost_stage_costs_is_unknown_and_blames_nobody(spec: Spec, tmp_path: Path):
    job, _ = job_of(replace(spec, steps=1), tmp_path)
    (missing,) = job_findings(job)
    assert (missing.id, missing.ranks) == ("RANK.MISSING", spec.lost)
    assert f"What pipeline stage {spec.lost[0]} costs without a profile is unknown" in words(missing.detail)


def test_a_step_in_an_unknown_order_leaves_the_others(slow: tuple[Spec, Job]):
    """The first step of the last stage runs two passes the other way round: nothing is said of it alone."""
    _, job = slow
    last = job.ranks[3]
    back = last.passes.backward.copy()
    back[[2, 3]] = back[[3, 2]]
    turned = structs_replace(last, passes=structs_replace(last.passes, backward=back))
    found = Job(job.path, [*job.ranks[:3], turned]).pipelines
    assert [run.step for run in found.runs] == ["6", "7"]
    assert [(reason.code, reason.args["odd"], reason.args["all"]) for reason in found.left_out] == [
        ("job.pipeline.order", 1, 3)
    ]
