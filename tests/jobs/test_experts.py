"""What uneven experts cost a job, against simulated jobs and their even twins; ``moe_jobs.py`` prints the table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from moe_jobs import TRANSFER, Load, Shape, measured, simulate
from msgspec.structs import replace as replace_rank
from written import fields_of, reasons

from npu_tui.analysis.experts import ALL_TO_ALL, OTHER, Exchanges, expert_passes, routed_rows
from npu_tui.analysis.kernels import RATIOS, Coded, KernelTable
from npu_tui.jobs.findings import job_findings
from npu_tui.jobs.heat import HeatSource
from npu_tui.jobs.job import Job
from npu_tui.jobs.model import LinkUse
from npu_tui.jobs.opening import open_job
from npu_tui.jobs.part_tables import EXPERT_LAYERS, EXPERT_RANKS
from npu_tui.jobs.summarize import sources_of, summarize_in_process
from npu_tui.output.job_report import job_report
from npu_tui.strings import words
from npu_tui.tui.job_overview import Examined, Overview
from npu_tui.tui.job_tables import JobRow, counts, job_table

SMALL = Shape(world=4, group=4, layers=4, steps=2)


@pytest.mark.parametrize(
    ("situation", "shape"),
    [
        ("hot rank", SMALL),
        ("moving", Shape(world=4, group=2, layers=3, steps=3, exchange="allGather", shapes=False)),
        ("hot expert", Shape(world=4, group=4, layers=4, steps=2, trains=False, exchange="mc2", passes=2)),
        ("hot rank", replace(SMALL, traced=False)),
        ("balanced", SMALL),
        ("late dispatch", SMALL),
        ("late combine", SMALL),
        ("slow device", SMALL),
    ],
)
def test_the_load_is_named_first_with_its_gain_or_not_at_all(situation: str, shape: Shape):
    row = measured(situation, shape, range(1))
    assert row.wrong == []
    assert row.layers == 1
    assert max(row.off, default=0) < 0.1


@pytest.fixture(scope="module")
def hot(tmp_path_factory: pytest.TempPathFactory) -> tuple[Job, Load, Path]:
    folder = tmp_path_factory.mktemp("hot")
    job, load, _ = simulate("hot expert", SMALL, 2, folder)
    return job, load, folder


def test_tables_tell_the_times_that_were_simulated(hot: tuple[Job, Load, Path]):
    job, load, _ = hot
    (rank,) = load.ranks or ()
    layers = np.concatenate((np.arange(4), np.arange(4)[::-1]))
    twice = np.where(np.arange(8) < 4, 1, 2)[:, None]
    for row in EXPERT_RANKS.records(job):
        truth = (load.experts * twice)[:, layers == row.layer, row.rank].sum() / SMALL.steps / 1e3
        assert row.work_us == pytest.approx(truth, abs=0.01)
        assert row.tokens == pytest.approx(load.tokens[:, layers == row.layer, row.rank].mean(), abs=0.1)
        assert row.passes == 2 * SMALL.steps
    uneven = [row for row in EXPERT_LAYERS.records(job) if row.uneven > 1.1]
    assert {row.slowest for row in uneven} == {rank}
    assert sum(row.job_waits_us for row in uneven) * SMALL.steps == pytest.approx(
        job_report(job).findings[0].gain_us, rel=0.02
    )


def test_the_heat_map_is_of_layers_and_its_worst_row_is_the_hot_rank(hot: tuple[Job, Load, Path]):
    job, load, _ = hot
    heat = HeatSource(job).heat("experts", "step")
    assert [column.label for column in heat.columns] == ["0", "1", "2", "3"]
    assert (heat.ranks[int(np.nansum(heat.values, axis=1).argmax())],) == load.ranks
    assert np.abs(heat.values.sum(axis=0)).max() < 1  # above and below the mean


def test_the_first_screen_is_the_map_of_layers_with_the_cursor_on_the_hot_rank(hot: tuple[Job, Load, Path]):
    job, load, _ = hot
    view = Overview(Examined(job))
    assert (view.metric, view.heat.axis, (view.rank,)) == ("experts", "layer", load.ranks)  # Enter opens its timeline
    layer = view.heat.columns[view.column].label
    table = job_table(view, "job_experts")
    (first, *_), count = table.rows, counts(view)["job_experts"]
    assert (count, first.cells[0], first.cells[-4]) == (4, layer, str(view.rank))
    assert isinstance(first, JobRow)
    assert first.rank == view.rank
    assert view.job.blamed.ranks[view.job.blamed.last[first.collective]] == view.rank
    others = Overview(Examined(Job(job.path, [replace_rank(each, experts=()) for each in job.ranks])))
    assert "job_experts" not in counts(others)
    assert others.metric == "own"


def test_summaries_and_traces_tell_the_same(hot: tuple[Job, Load, Path], tmp_path: Path):
    job, _, folder = hot
    list(summarize_in_process(sources_of([folder], (0, 1)), tmp_path, True))
    told, again = (job_report(one) for one in (job, open_job(tmp_path)))
    assert told.expert_ranks == again.expert_ranks
    assert [row.title for row in told.findings] == [row.title for row in again.findings]


def test_exchanges_that_fill_a_link_last_as_long_as_the_rank_with_most_tokens(hot: tuple[Job, Load, Path]):
    job, _, _ = hot

    def told(size_mb: float) -> tuple[float, str]:
        use = LinkUse(0, 1, "HCCS", "alltoAllV", size_mb, size_mb * 1e6 / TRANSFER)
        first = job_findings(Job(job.path, [replace_rank(each, links=(use,)) for each in job.ranks]))[0]
        return first.gain_ns or 0, words(first.detail)

    small, large = told(0.5), told(8.0)
    rows = [row for row in EXPERT_LAYERS.records(job) if row.uneven > 1.1]
    # Before and after every pass, evenly spread tokens spare the share above the mean.
    spared = sum(2 * row.passes * TRANSFER * (1 - 1 / row.uneven) for row in rows)
    assert large[0] - small[0] == pytest.approx(spared, rel=0.1)
    assert "exchanges of tokens" in large[1]
    assert "exchanges of tokens" not in small[1]


def test_a_capacity_that_tokens_do_not_fill_is_priced(tmp_path: Path):
    job, _, _ = simulate("balanced", replace(SMALL, padded=True), 2, tmp_path)
    ranks = [replace_rank(each, routed=6_666) for each in job.ranks]
    first = job_findings(Job(job.path, ranks))[0]
    assert first.id == "EXPERT.PADDED"
    assert words(first.title).startswith(
        "experts compute 9,999 rows where tokens fill 6,666 (padded to a capacity, 1.50 times as many)"
    )
    # A third of all products goes; the slowest rank of each layer decides, which is near the mean.
    products = sum(row.most_work_us for row in EXPERT_LAYERS.records(job)) * 1_000 * SMALL.steps
    assert first.gain_ns == pytest.approx(products / 3, rel=0.1)
    # Experts of uneven ranks are padded as well if none computes as little as tokens would fill.
    uneven = [
        replace_rank(each, experts=tuple(replace_rank(row, tokens=9_999 + 300 * each.rank) for row in each.experts))
        for each in ranks
    ]
    assert any(row.id == "EXPERT.PADDED" for row in job_findings(Job(job.path, uneven)))
    filled = [replace_rank(each, routed=9_500) for each in uneven]
    assert not [row for row in job_findings(Job(job.path, filled)) if row.id == "EXPERT.PADDED"]
    for routed in (0, 9_800):
        others = job_findings(Job(job.path, [replace_rank(each, routed=routed) for each in job.ranks]))
        assert not [each for each in others if each.id == "EXPERT.PADDED"]


@pytest.mark.parametrize(
    ("rows", "routed"),
    [
        ([("MoeInitRoutingV2", "4096,2560;4096,2")], 8_192),
        ([("MoeFinalizeRouting", "8192,2560;4096,2560;4096,2"), ("MoeTokenPermute", "4096,2560;4096,2")], 8_192),
        ([("MoeInitRouting", "8192,2560")], 8_192),
        ([("MoeTokenPermute", "4096,2560;8192"), ("MoeTokenPermuteGrad", "4096,2560")], 8_192),
        ([("MoeInitRouting", "8192,2560"), ("MoeInitRouting", "4096,2560")], 0),
        ([("GroupedMatmul", "8192,2560;2560,64")], 0),
    ],
)
def test_kernels_that_route_tokens_tell_how_many_rows_there_are(rows: list[tuple[str, str]], routed: int):
    assert routed_rows(_table([(kind, at, 10, shapes) for at, (kind, shapes) in enumerate(rows)])) == routed


def _table(rows: list[tuple[str, int, int, str]]) -> KernelTable:
    """Kernels of (type, start, duration, shapes)."""
    count = len(rows)
    start, length = (np.array([row[at] for row in rows], np.int64) for at in (1, 2))
    types, shapes = Coded.of([row[0] for row in rows]), Coded.of([row[3] or None for row in rows])
    none, unknown = Coded([], np.full(count, -1, np.int64)), np.full(count, np.nan)
    return KernelTable(
        np.arange(count), start, length, np.zeros(count, np.int64), types, types, none, shapes, none, none, none,
        unknown, unknown, dict.fromkeys(RATIOS, unknown), unknown,
    )  # fmt: skip


def _exchanges(*rows: tuple[int, int, int, int]) -> Exchanges:
    return Exchanges(*np.array(rows or np.zeros((0, 4)), np.int64).reshape(-1, 4).T)


def test_an_all_to_all_around_attention_is_no_exchange_of_tokens():
    rows = [(kind, 100 * at, 40, "8,16;4,16,32") for at in range(6) for kind in ("FlashAttention", "GroupedMatmul")]
    rows = [(kind, start + 50 * (kind == "GroupedMatmul"), 30, shapes) for kind, start, _, shapes in rows]
    sequence = [(100 * at - 10, 100 * at, ALL_TO_ALL, 7) for at in range(6)]
    tokens = [(100 * at + edge, 100 * at + edge + 8, ALL_TO_ALL, 3) for at in range(6) for edge in (40, 81)]
    both = _exchanges(*sorted(sequence + tokens))
    passes = expert_passes(_table(rows), both, np.array([300]), np.zeros(12, np.bool_))
    assert [(each.layer, each.work, each.tokens) for each in passes] == [(layer, 30, 8) for layer in (0, 1, 2, 0, 1, 2)]
    assert [each.back_start % 100 for each in passes] == [81] * 6
    assert [each.sent_start % 100 for each in passes] == [40] * 6


def test_gradients_that_are_reduced_meanwhile_split_no_layer():
    square = "8,16;16,16"  # the weights have as many columns as what they are multiplied with
    rows = [("GroupedMatmul", 100 * at + part, 20, square) for at in range(4) for part in (0, 30)]
    tokens = [(100 * at + 60, 100 * at + 70, ALL_TO_ALL, 1) for at in range(4)]
    reduced = [(100 * at + 25, 100 * at + 55, OTHER, 2) for at in range(4)]
    passes = expert_passes(_table(rows), _exchanges(*sorted(tokens + reduced)), np.zeros(0), np.zeros(8, np.bool_))
    assert [(each.work, each.tokens) for each in passes] == [(40, 8)] * 4


def test_layers_are_counted_from_the_end_where_the_backward_pass_computes_them_again():
    rows = [("GroupedMatmul", 100 * at, 50, "") for at in range(9)]
    around = _exchanges(*((100 * at + 60, 100 * at + 90, ALL_TO_ALL, 1) for at in range(9)))
    backward = np.arange(9) >= 3
    passes = expert_passes(_table(rows), around, np.zeros(0), backward)
    assert [each.layer for each in passes] == [0, 1, 2, 2, 2, 1, 1, 0, 0]


def test_products_that_exchange_themselves_wait_inside():
    rows = [("FlashAttention", 0, 10, ""), ("AlltoAllvGroupedMatMul", 10, 50, ""), ("FlashAttention", 70, 10, ""),
            ("AlltoAllvGroupedMatMul", 80, 50, "")]  # fmt: skip
    passes = expert_passes(_table(rows), _exchanges(), np.zeros(0), np.zeros(4, np.bool_))
    assert [(each.layer, each.fused, each.back_start) for each in passes] == [(0, True, -1), (1, True, -1)]


def test_a_capacity_that_all_ranks_compute_costs_nothing_and_is_said(tmp_path: Path):
    shape = replace(SMALL, padded=True)
    job, _, _ = simulate("balanced", shape, 1, tmp_path / "even")
    report = job_report(job)
    assert all(row.id != "EXPERT.LOAD" for row in report.findings)
    assert any("padded to a capacity" in reason for reason in reasons(report))
    # A buffer of one size may hold more tokens of one rank: then its products take longer all the same.
    job, load, _ = simulate("hot rank", shape, 1, tmp_path / "hot")
    report = job_report(job)
    assert (report.findings[0].id, tuple(report.findings[0].ranks)) == ("EXPERT.LOAD", load.ranks)
    assert not any("padded to a capacity" in reason for reason in reasons(report))


def test_products_that_take_now_a_little_more_now_less_are_no_load(tmp_path: Path):
    job, _, _ = simulate("balanced", replace(SMALL, differ=0.12), 1, tmp_path)
    assert all(row.id != "EXPERT.LOAD" for row in job_report(job).findings)
    assert all(row.uneven < 1.1 for row in EXPERT_LAYERS.records(job))


def test_what_stands_between_products_grows_with_them(tmp_path: Path):
    job, load, gain = simulate("hot rank", replace(SMALL, activation=0.4), 3, tmp_path)
    finding = job_report(job).findings[0]
    assert (finding.id, tuple(finding.ranks)) == ("EXPERT.LOAD", load.ranks)
    assert finding.gain_us == pytest.approx(gain / 1e3, rel=0.02)


def test_one_rank_tells_its_own_times_and_no_cost(hot: tuple[Job, Load, Path], capsys: pytest.CaptureFixture[str]):
    from npu_tui.cli.main import main

    assert main(["report", str(hot[2] / "rank1_ascend_pt"), "--format", "json"]) == 0
    report = fields_of(capsys.readouterr().out)
    assert [row["layer"] for row in report["experts"]] == [0, 1, 2, 3]
    assert all(row["combine_us"] > 0 and row["passes"] == 4 for row in report["experts"])
    assert all(not row["id"].startswith("EXPERT") for row in report["findings"])
