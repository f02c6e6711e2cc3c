"""Steps of an engine on an NPU: what they launched, also where the host runs ahead, replays a graph or is eager."""

from __future__ import annotations

import sqlite3
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engines import Engine, outcome, recorded, troubles
from jobs import by_id
from measured import profile_at
from test_repetitions import CANN, DEVICE, NO_MODEL, Writer
from written import fields_of

import npu_tui
from npu_tui.analysis.device import Window
from npu_tui.cli.main import main
from npu_tui.compare.comparison import ProfileComparison
from npu_tui.compare.measured import MeasuredSide
from npu_tui.output.report import report
from npu_tui.profile.engine_tables import ENGINE_KINDS, ENGINE_STEPS
from npu_tui.profile.parts import Selection
from npu_tui.profile.selection import NoPartError, part_of
from npu_tui.strings import words
from npu_tui.tui.session import make_session
from npu_tui.view.scene import Selected

sys.path += [str(Path(__file__).resolve().parents[1] / folder) for folder in ("load/database", "tui")]

from driving import opened
from small import LAUNCHES, small_database

LAYER = ("RmsNorm", "MatMulV2", "FusedInferAttentionScore")
KERNELS = 4 * len(LAYER)


def served(
    sizes: tuple[int, ...],
    eager: tuple[int, ...] = (),
    launch: float = 60,
    kernel: float = 20,
    pause: float = 0,
    frame: str = "",
    schedule: float = 0,
    sample: float = 40,
    waits: bool = False,
) -> Writer:
    """Steps that decode `sizes` requests; the first, and those of size 0, are a prefill; `eager` ones launch kernels.

    A graph is launched once and sampling after it, each step after the copy of its inputs. `pause` lasts until the next
    prefill, in a `frame` of Python if it has a name. An engine that `waits` does so for each token. Times in µs.
    """
    writer, host, free = Writer(), 1_000.0, 0.0
    for place, size in enumerate(sizes):
        size *= place > 0
        name = f"execute_context_0(0)_generation_{size}({size})" if size else "execute_context_1(900)_generation_0(0)"
        if place and not size:
            asked = max(host, free) + pause if pause else host
            if frame:
                writer.host(frame, host + 5, asked - host - 10, "python_function")
            host = asked
        if schedule:
            writer.host("schedule: allocate_slots", host, schedule)
            host += schedule
        begun = host
        writer.host("prepare input", host + 2, 20)
        copied(writer, host + 25)
        at = max(host + 60, free)
        alone = size in eager or not size
        for k, kind in enumerate(LAYER * (KERNELS // len(LAYER))):
            if alone or not k:
                at = max(at, host + 60)
                writer.launch("Node@launch" if alone else "AscendCL@aclmdlRIExecuteAsync", host + 40, at)
                host += launch if alone else 40
            writer.kernel(kind, at, kernel)
            at += kernel + 1
        at = max(at, host + 30)
        writer.launch("Node@launch", host + 10, at)
        writer.kernel("ArgMaxV2", at, 15)
        free = at + 15
        writer.host("sample_token", host + 5, sample)
        host += 10 + sample
        if waits:
            writer.slice("AscendCL@aclrtSynchronizeStream", CANN, 1, host, max(free - host, 0) + 2)
            host = max(host, free) + 2
        writer.host(name, begun, host - begun)
        host += 15
    return writer


def copied(writer: Writer, at: float) -> None:
    """A copy to the device on a stream of its own."""
    writer.links += 1
    link = {"name": "HostToDevice", "cat": "HostToDevice", "id": str(writer.links << 32)}
    writer.slice("AscendCL@aclrtMemcpyAsync", CANN, 1, at, 4)
    writer.slice("MEMCPY_ASYNC", DEVICE, 3, at + 10, 3, args={"Task Type": "PCIE_DMA_SQE", "Model Id": NO_MODEL})
    writer.events += [
        link | {"ph": "s", "pid": CANN, "tid": 1, "ts": at + 1},
        link | {"ph": "f", "bp": "e", "pid": DEVICE, "tid": 3, "ts": at + 10},
    ]


def test_what_each_step_did(tmp_path: Path) -> None:
    profile = served((1, 4, 4, 9, 4), eager=(9,)).profile(tmp_path)
    rows = ENGINE_STEPS.records(profile)
    # Enter marks the slice of a step on the host, which ends before the device does anything of it.
    called = [step.start for step in profile.engine.steps]
    for number, start in enumerate(called):
        launched = ENGINE_STEPS.records(profile.part(Selection(Window(start, start + 1))))
        assert number + 1 in [row.ordinal for row in launched]
    assert [(row.kind, row.requests, row.tokens, row.graph) for row in rows] == [
        ("prefill", 1, 900, False), ("decode", 4, 4, True), ("decode", 4, 4, True), ("decode", 9, 9, False),
        ("decode", 4, 4, True),
    ]  # fmt: skip
    # The next inputs are copied while kernels of the step before run: the copy starts no step.
    graph = KERNELS + 1, KERNELS, 1
    alone = KERNELS + 1, 0, 1
    assert [(row.kernels, row.graph_kernels, row.copies) for row in rows] == [alone, graph, graph, alone, graph]
    starts = np.array([row.device_start_us for row in rows])
    assert np.diff(starts) == pytest.approx([row.device_span_us for row in rows[:-1]])
    assert all(row.phases == {"prepare": 20.0, "sample": 40.0} for row in rows)


def renamed(writer: Writer, name: Callable[[int], str]) -> Writer:
    """The steps of `writer` under other names, by their numbers."""
    steps = [event for event in writer.events if event["name"].startswith("execute_")]
    for number, event in enumerate(steps, 1):
        event["name"] = name(number)
    return writer


@pytest.mark.parametrize(
    ("name", "eager", "basis", "told"),
    [
        ("aten::empty", (), "graphs", ["eager", *["graph"] * 6]),
        ("aten::empty", (4,), "rhythm", ["eager"] * 6),
        ("execute_model", (), "annotations", ["eager", *["graph"] * 6]),
        ("ProfilerStep#{}", (), "profiler", ["eager", *["graph"] * 6]),
    ],
)
def test_steps_without_names(tmp_path: Path, name: str, eager: tuple[int, ...], basis: str, told: list[str]) -> None:
    """Launches of graphs, else the rhythm of kernels; an eager prefill before a graph is a step of its own."""
    profile = renamed(served((1, *[4] * 6), eager), name.format).profile(tmp_path)
    steps = ENGINE_STEPS.records(profile)[: len(told)]
    assert (profile.engine.basis, report(profile).steps_from) == (basis, basis)
    assert [(row.kind, row.graph, row.kernels) for row in steps] == [
        ("unknown", graph == "graph", KERNELS + 1) for graph in told
    ]
    assert steps[-1].device_span_us == pytest.approx(785 if told[-1] == "eager" else 267)


def test_ranges_of_mstx_on_host_and_device_are_one_step(tmp_path: Path) -> None:
    """A range has a twin on the device; the one of the host tells what it launched."""
    writer = served((1, 4, 4, 9, 4), eager=(9,))
    wanted = ENGINE_STEPS.records(writer.profile(tmp_path))
    for event in [event for event in writer.events if event["name"].startswith("execute_")]:
        event |= {"pid": CANN, "tid": 9, "cat": "mstx"}
        writer.slice(event["name"], DEVICE, 8, event["ts"] + 70, event["dur"])
    assert [(row.kind, row.tokens, row.graph, row.device_span_us) for row in wanted] == [
        (row.kind, row.tokens, row.graph, row.device_span_us) for row in ENGINE_STEPS.records(writer.profile(tmp_path))
    ]


def test_steps_of_a_database(tmp_path: Path) -> None:
    path = small_database(tmp_path / "ascend_pytorch_profiler_0.db")
    name = "execute_context_0(0)_generation_4(4)"
    with closing(sqlite3.connect(path)) as database:
        database.execute("UPDATE STRING_IDS SET value = ? WHERE value = 'ProfilerStep#7'", (name,))
        database.commit()
    (row,) = ENGINE_STEPS.records(profile_at(path, None))
    assert (row.name, row.kind, row.tokens, row.graph, row.kernels) == (name, "decode", 4, False, LAUNCHES + 1)


def test_kinds_and_the_step_of_a_kind(tmp_path: Path) -> None:
    profile = served((1, 4, 4, 9, 4), eager=(9,)).profile(tmp_path)
    steps = ENGINE_STEPS.records(profile)
    rows = {(row.kind, row.bucket): row for row in ENGINE_KINDS.records(profile)}
    assert rows.keys() == {("prefill", 1024), ("decode", 4), ("decode", 16)}
    four, spans = rows["decode", 4], [row.device_span_us for row in steps if row.requests == 4]
    assert (four.count, four.tokens, four.graph_steps, four.eager_steps) == (3, 12, 3, 0)
    assert four.p50_us == pytest.approx(np.median(spans))
    assert four.tokens_per_s == pytest.approx(12 / sum(spans) * 1e6)
    assert four.sample_share == pytest.approx(120 / sum(spans), rel=1e-4)
    decoding = sorted((row for row in steps if row.kind == "decode"), key=lambda row: row.device_span_us)
    assert part_of(profile, step="decode").step == decoding[2].ordinal
    assert part_of(profile, step=4).window == profile.steps[3].window
    with pytest.raises(NoPartError):
        part_of(profile, step="mixed")
    report = npu_tui.open(tmp_path / "trace_view.json").report(step="decode")
    assert report.data.selection.step == decoding[2].ordinal


def test_limits_on_the_steps_of_a_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    profile = served((1, 4, 4, 9, 4), eager=(9,)).profile(tmp_path)
    spans = [row.device_span_us for row in ENGINE_STEPS.records(profile) if row.kind == "decode"]
    path, longest = str(tmp_path / "trace_view.json"), max(spans)
    assert main(["check", path, "--max-step", f"decode:max:{longest}us", "--max-step", "decode:p50 1us"]) == 1
    said = capsys.readouterr().out
    assert "1 of 2 checks" in said
    assert "decode step, median" in said
    assert main(["check", "--max-step", "decode:p99", f"{longest}us", path, "--format", "json"]) == 0
    (check,) = fields_of(capsys.readouterr().out)["checks"]
    assert (check["id"], check["value_us"]) == ("decode:p99", pytest.approx(np.percentile(spans, 99), abs=0.001))
    assert main(["check", path, "--max-step", "mixed:p90:1s"]) == 1
    assert "no engine step on the device is of the kind mixed; there are: decode and prefill" in capsys.readouterr().out


def test_steps_that_fall_out_of_graph_capture(tmp_path: Path) -> None:
    profile = served((1, *[4, 4, 9, 4] * 5), eager=(9,), launch=120).profile(tmp_path)
    found = by_id(profile.findings)["ENGINE.EAGER"]
    assert found.steps == (4, 8, 12, 16, 20)
    assert [place.slice for place in found.evidence] == [profile.steps[number - 1].item for number in found.steps]
    assert "Requests in their batches: 9. The largest batch that a graph replays has 4 requests." in words(found.detail)
    assert found.unit == "engine_step"


@pytest.mark.parametrize("sizes", [(1, *[4] * 20), (1, *[9] * 20)])
def test_all_in_graphs_or_none_is_no_fall(tmp_path: Path, sizes: tuple[int, ...]) -> None:
    profile = served(sizes, eager=(9,)).profile(tmp_path)
    assert "ENGINE.EAGER" not in by_id(profile.findings)


@pytest.mark.parametrize("frame", ["", "zmq/sugar/socket.py(12): recv"])
def test_pauses_without_requests_are_in_no_step_time(tmp_path: Path, frame: str) -> None:
    sizes = (1, *[4] * 6, 0, *[4] * 6, 0, *[4] * 6)
    asked, paused = (served(sizes, pause=pause, frame=frame if pause else "") for pause in (0, 30_000))
    (tmp_path / "paused").mkdir()
    without, profile = asked.profile(tmp_path), paused.profile(tmp_path / "paused")
    rows, wanted = ({row.kind: row for row in ENGINE_KINDS.records(part)} for part in (profile, without))
    for kind in ("prefill", "decode"):
        assert rows[kind].p99_us == pytest.approx(wanted[kind].p99_us, rel=0.15)
    # A prefill after a pause finds the device dry, as the very first one does.
    assert rows["decode"].tokens_per_s == pytest.approx(wanted["decode"].tokens_per_s, rel=0.05)
    assert max(row.bubble_us for row in ENGINE_STEPS.records(profile)) < 200
    found = by_id(profile.findings)
    assert found["SERVE.IDLE"].severity == "info"
    assert words(found["SERVE.IDLE"].title).startswith("No request for 60." if frame else "Perhaps no request for 60.")
    assert {row.id for row in profile.findings.findings if row.severity != "info"} <= {
        row.id for row in without.findings.findings
    }


@pytest.mark.parametrize("requests", [0, 1])
def test_a_pause_before_a_decode_is_no_wait_for_requests(tmp_path: Path, requests: int) -> None:
    """Requests that are being served would go on: the host is late. A dummy batch serves none."""
    writer = served((1, *[4] * 6, 0, *[4] * 6), pause=30_000)
    for event in writer.events:
        if event["name"] == "execute_context_1(900)_generation_0(0)" and event["ts"] > 2_000:
            event["name"] = f"execute_context_0(0)_generation_{requests}({requests})"
    found = by_id(writer.profile(tmp_path).findings)
    assert ("SERVE.IDLE" in found) == (not requests)
    assert (max(row.gain_ns or 0 for row in found.values()) > 1_000_000) == bool(requests)


async def test_the_explorer_leads_to_the_step_that_is_eager(tmp_path: Path) -> None:
    profile = served((1, 4, 4, 9, 4), eager=(9,)).profile(tmp_path)
    async with opened(make_session([profile]), (120, 40)) as driver:
        await driver.press("#")
        await driver.press("tab")
        await driver.press("enter")
        step = profile.engine.steps[3]
        assert driver.explorer.state.range == (step.start, step.start + (step.host or 0))
        assert driver.explorer.state.selection == Selected(0, step.item)


def length(profile: Any) -> int:
    """From the first work of the first step to the last one of the last, ns."""
    windows = [step.window for step in profile.engine.steps]
    return int(windows[-1].end - windows[0].start)


@pytest.mark.parametrize(
    ("name", "steps", "says"),
    [
        ("eager hole", 18, "The largest batch that a graph replays has 8 requests."),
        ("scheduling", 30, "Scheduling:"),
        ("sampling", 16, "Sampling:"),
        ("context sglang", 24, "With 6 requests attention takes"),
        ("padding shapes", 21, "are filled up to a captured size: 4, 8 and 16."),
        ("drafts", 30, "With 1 draft a token takes least"),
    ],
)
def test_gains_are_those_of_the_run_without_the_cause(tmp_path: Path, name: str, steps: int, says: str) -> None:
    trouble = troubles()[name]
    said = outcome(trouble.lasting(steps), 1, tmp_path)
    assert said.near, (said.told, said.true, said.step)
    assert said.named[0] == trouble.finding
    found = by_id(profile_at(tmp_path / "with").findings)[trouble.finding or ""]
    assert says in words(found.detail)
    assert found.unit == "engine_step"


@pytest.mark.parametrize("name", ["healthy chunked", "healthy drafts", "healthy padding", "dummy"])
def test_healthy_engines_are_silent(tmp_path: Path, name: str) -> None:
    assert not outcome(troubles()[name].lasting(24), 1, tmp_path).named
    line, computing = profile_at(tmp_path / "with").findings.verdict
    assert words(computing).startswith("Computing is mostly ")
    assert ("goes to dummy batches" in words(line)) == (name == "dummy")


def test_host_work_that_the_device_hides_is_no_finding(tmp_path: Path) -> None:
    profile = served((1, *[4] * 20), kernel=40, schedule=300).profile(tmp_path)
    assert "ENGINE.HOST" not in by_id(profile.findings)


def test_steps_are_compared_with_their_kind(tmp_path: Path) -> None:
    """The new side has fewer large batches, whose steps are long, and its kernels take longer."""
    base = served((9, 9, *[4] * 12, 9, 9, 9), eager=(9,), launch=200).profile(tmp_path)
    (tmp_path / "new").mkdir()
    new = served((9, 9, *[4] * 12), eager=(9,), launch=200, kernel=25).profile(tmp_path / "new")
    compared = ProfileComparison(MeasuredSide(base), MeasuredSide(new))
    works = [Counter(window.work for window in side.windows) for side in compared.sides]
    assert works[0] == works[1] == {("decode", 4): 11, ("decode", 16): 1}
    left = [(window.work, why) for window, why in compared.base.sample.left_out]
    # The first replay after an eager step starts late: an outlier among decodes, which no step of another size is.
    assert left == [(("prefill", 1024), "first"), (("decode", 4), "outlier"), *[(("decode", 16), "unlike")] * 3]
    assert compared.step.verdict == "slower"
    walls = [side.walls.mean() for side in compared.sides]
    assert compared.step.delta == pytest.approx(walls[1] - walls[0])


@pytest.mark.parametrize(
    "name",
    [
        "decode[bs=1/999999999999999 tok=999999999999999]",
        "step[TARGET_VERIFY bs=1 g_sq=999999999999999 g_sk={}00000000000000]",
        "step[TARGET_VERIFY bs=8 g_sq=9 g_sk={}0]",
        "decode[bs=0/8]",
        "execute_9_context_0(sq0sk0sqsq0sqsk0)_generation_0(sq9sk99{}sqsq0sqsk0)",
    ],
)
def test_sizes_in_names_are_untrusted(tmp_path: Path, name: str) -> None:
    profile = renamed(served((1, *[4] * 12)), name.format).profile(tmp_path)
    assert report(profile).engine_steps
    assert profile.findings.findings


def test_steps_that_graphs_tell_are_compared(tmp_path: Path) -> None:
    """Prefills between the graphs of one side are steps of their own, and longer ones than its decodes."""
    engine = Engine(steps=14, layers=2, launch=60.0, names="none", requests=lambda step: 6 if step % 5 else 0)
    longer = replace(engine, matmul=50.0, requests=lambda step: 6 * (step > 0))
    sides = [MeasuredSide(recorded(one, tmp_path / name)) for name, one in {"base": engine, "new": longer}.items()]
    assert [side.profile.engine.basis for side in sides] == ["graphs", "graphs"]
    compared = ProfileComparison(*sides)
    walls = [np.median([step.span for step in side.profile.engine.steps if step.graphs]) for side in sides]
    assert compared.step.verdict == "slower"
    assert compared.step.delta == pytest.approx(walls[1] - walls[0], rel=0.1)


@pytest.mark.parametrize(
    ("sizes", "launch", "held"),
    [
        ((1, *[4] * 6, 0, *[5] * 6), 120, True),
        ((1, *[4] * 6, 0, *[1] * 6), 120, False),  # the earlier requests have ended
        ((1, *[4] * 6), 120, False),  # nobody decodes before the first one
        ((1, *[4] * 6, 0, *[5] * 6), 20, False),  # a short one
    ],
)
def test_prefill_that_holds_up_decodes(tmp_path: Path, sizes: tuple[int, ...], launch: float, held: bool) -> None:
    profile = served(sizes, launch=launch, waits=True).profile(tmp_path)
    rows = by_id(profile.findings)
    assert ("ENGINE.PREFILL" in rows) == held
    if held:
        found, step = rows["ENGINE.PREFILL"], profile.engine.steps[7]
        assert (found.severity, found.gain_ns, found.evidence[0].slice) == ("info", None, step.item)
        assert "The longest wait is for 900 tokens." in words(found.detail)


@pytest.mark.parametrize(("real", "padded"), [(5, True), (7, False), (8, False)])
def test_batches_filled_up_to_a_captured_size(tmp_path: Path, real: int, padded: bool) -> None:
    name = f"decode[bs={real}/8 tok={real}]"
    profile = renamed(served((1, *[4] * 6)), lambda number: name).profile(tmp_path)
    rows = by_id(profile.findings)
    assert ("ENGINE.PADDING" in rows) == padded
    if padded:
        found = rows["ENGINE.PADDING"]
        assert (found.severity, found.gain_ns, len(found.evidence)) == ("info", None, 7)
        assert words(found.title) == "37.5% of the places in batches are padding, in 7 steps"
