"""Rules that used to speak wrongly, or to keep silent: each with the smallest situation that shows it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from causes import ALL
from jobs import by_id, check, facts_of, first_of, job, measured, put
from launcher import Launcher
from measured import profile_at
from msgspec import structs
from situations import SITUATIONS, Trouble, Uneven
from trace_writer import TraceWriter
from troubled import TROUBLED
from written import text_report

from npu_tui.analysis.code_lines import CodeLine
from npu_tui.analysis.host_owners import WORK_NS
from npu_tui.analysis.limits import Thresholds
from npu_tui.analysis.path import Owner
from npu_tui.analysis.replay import Change, HostCut
from npu_tui.analysis.steps import warm_up_steps
from npu_tui.output.report import report
from npu_tui.profile.parts import WHOLE_TRACE, select_step
from npu_tui.rules.facts import Facts
from npu_tui.rules.host_work import works
from npu_tui.rules.inputs import length_of, together
from npu_tui.rules.judged_path import path_owners
from npu_tui.rules.ladder import steps_of
from npu_tui.rules.model import Evidence
from npu_tui.rules.outliers import _compared
from npu_tui.rules.pauses import _beside, _pauses, _still
from npu_tui.rules.rule import Draft
from npu_tui.strings import words
from npu_tui.trace.intervals import union
from npu_tui.trace.message import message
from npu_tui.trace.once import ValueCache


def test_clocks_that_only_waits_tell_change_no_finding() -> None:
    """The host is so far ahead that no launch shows the offset of the clocks; its waits for the device do."""
    ahead = replace(
        SITUATIONS["healthy"],
        seed=4,
        steps=4,
        layers=12,
        kernel_ns=300_000,
        world_size=1,
        item_sync=True,
        step_end_sync=False,
    )
    saving = replace(ahead, trouble=Trouble(pause_ns=60_000_000), uneven=Uneven(trouble_every=4))
    found = [measured(replace(saving, clock_offset_ns=offset)) for offset in (0, 365_000)]
    floors = [profile.dispatch[0].floors[0] for profile in found]
    assert [floor.trusted for floor in floors] == [False, False]
    assert floors[1].floor == 30_000
    assert found[1].facts[0].floor == pytest.approx(365_000 + floors[0].floor, abs=25_000)
    leads = [profile.findings.findings[0] for profile in found]
    assert [lead.id for lead in leads] == ["HOST.WORK", "HOST.WORK"]
    assert "torch.serialization.save at train.py:128" in words(leads[1].title)
    assert leads[1].gain_ns == pytest.approx(leads[0].gain_ns, rel=0.01)


def test_a_constant_clock_is_the_full_clock() -> None:
    found = measured(replace(TROUBLED["healthy"], seed=3))
    counters = found.trace.counters
    for series in counters.series:
        if series.name == "AI Core Freq":
            counters.value[counters.offset[series.index] : counters.offset[series.index + 1]] = 1_650.0
    assert check("FREQ", facts_of(found)) is None


@pytest.mark.parametrize(("counted", "drop"), [(1_800, 1 - 1_200 / 1_800), (1_200, None)])
def test_a_clock_that_is_held_down_is_below_the_one_that_cycles_are_counted_by(
    counted: int, drop: float | None
) -> None:
    found = measured(replace(TROUBLED["healthy"], seed=3))
    counters = found.trace.counters
    for series in counters.series:
        if series.name == "AI Core Freq":
            counters.value[counters.offset[series.index] : counters.offset[series.index + 1]] = 1_200.0
    cells = {"Name": "k", "Type": "MatMulV2", "Accelerator Core": "AI_CORE", "Duration(us)": "100", "Block Dim": "20"}
    cells |= {"aicore_time(us)": "95", "aic_total_cycles": str(95 * counted * 20)}
    draft = check("FREQ", facts_of(found, kernels=[cells] * 8))
    assert (draft is None) == (drop is None)
    if drop is not None:
        assert isinstance(draft, Draft)
        assert draft.title.args["drop"] == pytest.approx(drop)
        assert "at 1,800 MHz, a clock that is never reached" in words(draft.detail)
        assert draft.anywhere


def test_kernels_at_the_idle_clock_are_slow() -> None:
    draft = check(
        "FREQ",
        facts_of(
            measured(replace(TROUBLED["clock"], seed=3, trouble=replace(TROUBLED["clock"].trouble, core_mhz=800)))
        ),
    )
    assert isinstance(draft, Draft)
    assert draft.title.args["drop"] > 0.5


@pytest.mark.parametrize("core_mhz", [800, 1_200])
def test_as_many_kernels_are_slow_as_end_at_a_lower_clock(core_mhz: int) -> None:
    found = measured(replace(TROUBLED["clock"], seed=3, trouble=replace(TROUBLED["clock"].trouble, core_mhz=core_mhz)))
    facts = facts_of(found)
    draft = check("FREQ", facts)
    assert isinstance(draft, Draft)
    counters = found.trace.counters
    (series,) = [each for each in counters.series if each.name == "AI Core Freq"]
    own = slice(int(counters.offset[series.index]), int(counters.offset[series.index + 1]))
    samples = list(zip(counters.time[own].tolist(), counters.value[own].tolist(), strict=True))
    ends = found.trace.slices.end[facts.kernels].tolist()
    clocks = [[value for time, value in samples if time <= end][-1:] for end in ends]
    slow = [clock for clock in clocks if clock and clock[0] < max(value for _, value in samples)]
    told = draft.title.args
    assert (told["count"], told["all"]) == (len(slow), len(ends))
    assert len(slow) > 0
    assert "No equal kernels ran at both clocks" in words(draft.detail)
    assert draft.confidence == "low"


def test_a_lower_clock_costs_what_equal_kernels_take_longer() -> None:
    """Matrix products take 64 % longer at the lower clock, all else as long as before."""
    told = by_id(measured(ALL["own: a clock that falls"].job).findings)["FREQ"]
    assert "longer than equal kernels at the full clock" in words(told.detail)
    assert (told.severity, told.confidence) == ("high", "high")


def test_each_of_two_devices_has_its_own_host() -> None:
    devices = profile_at(Path("fixtures/msprof_two_devices")).part(WHOLE_TRACE).facts
    lanes = devices[0].trace.lanes
    threads = []
    for facts in devices:
        launches = facts.launches
        assert launches is not None
        trace = facts.trace
        launching = {lanes[trace.links.source_lane[link]].tid for link in launches.link.tolist()}
        calls = facts.named(("cann",), lambda name: "launch" in name)
        assert {lanes[lane].tid for lane in trace.slices.lane[calls].tolist()} == launching
        threads.append(launching)
    assert threads[0].isdisjoint(threads[1])


@pytest.mark.parametrize(
    ("lengths", "warm"),
    [
        ([160, 100, 101], 0),  # two later steps are alike by chance
        ([210, 100, 101], 1),
        ([160, 100, 101, 99, 100, 102, 98, 100], 1),
        ([160, 100, 160, 99, 160, 102, 98, 160], 0),
    ],
)
def test_how_much_longer_a_first_step_takes_that_warms_up(lengths: list[int], warm: int) -> None:
    assert warm_up_steps(np.array(lengths, np.int64) * 1_000_000) == warm


def filled(**reserved: str) -> Facts:
    rows: list[dict[str, str | None]] = [
        {"Component": name, "Total Reserved(MB)": value, "Total Allocated(MB)": value}
        for name, value in reserved.items()
    ]
    return facts_of(job("healthy"), memory=rows)


def test_memory_that_is_nearly_full() -> None:
    full = check("MEM.PRESSURE", filled(PTA="61440"))
    assert isinstance(full, Draft)
    assert (full.severity, full.title.args["capacity"]) == ("medium", 64.0)
    assert check("MEM.PRESSURE", filled(PTA="50000")) is None
    # A small device that is full, or a large one that is half full.
    assert check("MEM.PRESSURE", filled(PTA="100", APP="30000")) is None


def test_the_mte2_ratio_of_older_chips_has_no_prefix() -> None:
    row = {"Name": "k", "Type": "Add", "Accelerator Core": "AI_CORE", "Duration(us)": "100", "mte2_ratio": "0.9"}
    draft = check("MEM.BW", facts_of(job("healthy"), kernels=[row]))
    assert isinstance(draft, Draft)


def test_link_types_are_carried_by_their_transport() -> None:
    found = job("transfers")
    draft = check("COMM.LINK", facts_of(found, thresholds=Thresholds(small_packet_sdma_mb=1e6, contention_gb_s=1e6)))
    assert isinstance(draft, Draft)
    assert "SDMA packets" in words(draft.detail)


def test_a_queue_that_is_off_is_told_without_metadata() -> None:
    found = measured(replace(TROUBLED["healthy"], seed=3))
    trace = found.trace
    for name in ("enqueue", "dequeue"):
        code = trace.categories.index(name)
        trace.slices.category[trace.slices.category == code] = -1
    trace.known = ValueCache()
    draft = check("ENV/STARTUP", facts_of(found))
    assert isinstance(draft, Draft)
    assert any("TASK_QUEUE_ENABLE=1" in words(each) for each in draft.advice)


def test_what_names_a_part_of_the_program_is_looked_into() -> None:
    found = measured(replace(TROUBLED["healthy"], seed=3))
    plain = check("OP.AFFINITY_API", facts_of(found))
    assert isinstance(plain, Draft)
    trace = found.trace
    step = next(lane for lane in trace.file_lanes if lane.layer == 0)
    names = trace.slices.name[step.first : step.last]
    outer = [k for k in np.unique(names).tolist() if trace.names[k].startswith("ProfilerStep#")]
    for k in outer:
        trace.names[k] = "DistributedDataParallel.forward"
    wrapped = check("OP.AFFINITY_API", facts_of(found))
    assert isinstance(wrapped, Draft)
    assert words(wrapped.detail) == words(plain.detail)


def test_a_share_is_never_of_nothing() -> None:
    for trouble in ("healthy", "ai_cpu", "transfers"):
        draft = check("OP.AFFINITY_API", facts_of(job(trouble)))
        if isinstance(draft, Draft):
            assert "0.0%" not in " ".join(words(each) for each in draft.advice)


def test_one_slow_call_among_equals(monkeypatch) -> None:
    own, calls = Launcher._kernel, count()

    def kernel(self, start, name, task_type, kind, duration, *rest):
        slow = kind == "MatMulV2" and next(calls) == 20
        return own(self, start, name, task_type, kind, duration * 20 if slow else duration, *rest)

    quiet = facts_of(measured(replace(TROUBLED["healthy"], seed=3)))
    assert check("OP.OUTLIER", quiet) is None
    monkeypatch.setattr(Launcher, "_kernel", kernel)
    found = measured(replace(TROUBLED["healthy"], seed=3))
    finding = by_id(found.findings)["OP.OUTLIER"]
    assert len(finding.steps) == 1
    assert "same name and shapes" in words(finding.detail)
    assert "Mainly in" in words(finding.detail)
    assert finding.gain_ns is not None
    assert finding.gain_ns == pytest.approx(finding.title.args["each"].args["time"], rel=0.1)
    few = np.array([100.0, 100, 101, 300, 100, 100, 101, 100])
    facts = SimpleNamespace(kernels=np.arange(8), length=lambda items: few[items].astype(np.int64))
    names = np.repeat([0, 1], 4)
    assert [len(_compared(facts, names, 2.0, fewest)[1]) for fewest in (4, 8)] == [1, 0]


def test_a_pause_without_a_record() -> None:
    paused = replace(TROUBLED["slow_python"], seed=3, with_stack=False)
    line = replace(paused.slow_lines[0], extra_ns=12_000_000)
    draft = check("HOST.PAUSE", facts_of(measured(replace(paused, slow_lines=(line,)))))
    assert isinstance(draft, Draft)
    assert not any("binding" in words(each) for each in draft.advice)
    assert check("HOST.PAUSE", facts_of(job("slow_python"))) is None
    assert check("HOST.PAUSE", facts_of(job("collection"))) is None  # the collection is recorded
    assert check("HOST.PAUSE", facts_of(job("loader"))) is None


def test_pauses_now_at_one_line_now_at_another_are_of_no_line() -> None:
    paused = replace(TROUBLED["slow_python"], seed=3, with_stack=False)
    facts = facts_of(measured(replace(paused, slow_lines=(replace(paused.slow_lines[0], extra_ns=12_000_000),))))
    (whole,) = [owner for owner in works(facts)["HOST.PAUSE"] if owner.gain]
    cut = max(whole.change.host, key=lambda cut: (cut.span[1] - cut.span[0]).max())
    long = np.flatnonzero(cut.span[1] - cut.span[0] > 5_000_000)
    assert len(long) > 1

    def at(line: int, chosen: slice) -> Owner:
        span = cut.span[0][long[chosen]], cut.span[1][long[chosen]]
        change = Change(host=(HostCut(cut.thread, span),))
        return structs.replace(whole, where=CodeLine("train.py", line, "fit"), calls=("fit",), change=change)

    one = _pauses(facts, (at(3, slice(None)),))
    several = _pauses(facts, (at(3, slice(0, None, 2)), at(9, slice(1, None, 2))))
    assert "in train.py:3 in fit()" in words(one.title)
    assert "at 2 places of the program" in words(several.title)
    assert (several.code_lines, several.anywhere) == ((), True)
    assert "whatever line it is at" in words(several.detail)


def test_operators_that_are_launched_slowly_are_no_pause() -> None:
    """A thread that begins one call after another does not stand still, however long nothing reaches the device."""
    facts = facts_of(job("healthy"))
    lanes, start = facts.trace.lanes, facts.trace.slices.start
    host = [lane for lane in lanes if facts.trace.layers[lane.layer].kind == "python"]
    tid = max(host, key=lambda lane: lane.last - lane.first).tid
    begins = np.sort(np.concatenate([start[lane.first : lane.last] for lane in lanes if lane.tid == tid]))
    breaks = np.flatnonzero(np.diff(begins, append=2**62) >= WORK_NS)
    runs = np.split(begins, breaks + 1)
    launched = max(runs, key=len)

    def pausing(*span: int) -> Owner:
        cut = HostCut(tid, (np.array(span[:1]), np.array(span[1:])))
        return structs.replace(some_owner, name="", change=Change(host=(cut,)))

    some_owner = path_owners(facts).owners[0]
    assert launched[-1] - launched[0] > WORK_NS
    assert _still(facts, (pausing(launched[0], launched[-1]),)) == ()
    (still,) = _still(facts, (pausing(launched[0], begins[-1] + 12_000_000),))
    assert (still.change.host[0].span[0][-1], still.change.host[0].span[1][-1]) == (begins[-1], begins[-1] + 12_000_000)


@pytest.mark.parametrize(
    ("beyond", "pause_ns"),
    [(0, 12_000_000), (3, 12_000_000), (0, 4_000_000)],
    ids=["in the pauses", "all the time", "in short ones"],
)
def test_a_pause_beside_a_thread_that_holds_the_interpreter(tmp_path: Path, beyond: int, pause_ns: int) -> None:
    """Frames of another thread that fill the pauses tell what is run then, unless they run on all the time."""
    paused = replace(TROUBLED["slow_python"], seed=3, with_stack=False)
    put(first_of((replace(paused, slow_lines=(replace(paused.slow_lines[0], extra_ns=pause_ns),)),)), tmp_path / "p")
    (source,) = (tmp_path / "p").rglob("trace_view.json")
    quiet = profile_at(source).facts[0]
    draft = check("HOST.PAUSE", quiet)
    assert isinstance(draft, Draft)
    events = json.loads(source.read_text())
    begin = min(float(event["ts"]) for event in events if event.get("ph") == "X")
    like = next(event for event in events if event.get("cat") == "cpu_op")
    for place in draft.evidence:
        length = (place.end - place.start) / 1e3
        at = begin + (place.start - quiet.floor) / 1e3 - beyond * length
        frame = {"name": "hooks.py(30): on_metrics", "tid": 77, "cat": "python_function", "args": {}}
        events.append(like | frame | {"ts": f"{at:.3f}", "dur": (1 + beyond) * length})
    source.write_text(json.dumps(events))
    found = check("HOST.PAUSE", profile_at(source).facts[0])
    assert isinstance(found, Draft)
    assert ("hooks.py:30 in on_metrics()" in words(found.title)) == (not beyond)
    assert ("share one lock" in words(found.detail)) == ("into a process" in words(found.advice[0])) == (not beyond)
    # A longer silence that costs the device nothing, as where the host is far ahead, takes nothing back.
    facts = profile_at(source).facts[0]
    paused_at = union(*np.array([(place.start, place.end) for place in found.evidence], np.int64).T)
    idle = np.array([facts.trace.end]), np.array([facts.trace.end + 10 * length_of(paused_at)])
    beside = _beside(facts, together(paused_at, idle), paused_at)
    assert (beside is not None and beside[0].function == "on_metrics") == (not beyond)


@pytest.mark.parametrize("own_thread", [False, True])
def test_collections_in_a_process_of_their_own_stop_the_thread(
    own_thread: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = TraceWriter._frames

    def frames(self):
        pid, tid = self._recording.process_id, {"tid": 7} if own_thread else {}
        moved = {"pid": (pid << 10) + (1 << 5), "cat": "GC", "args": {}, **tid}
        events = [event | moved if event["name"] == "GC" else event for event in own(self)]
        named = {"ph": "M", "name": "process_name", "pid": moved["pid"], "tid": 0, "args": {"name": "Python GC"}}
        return [*events, named]

    whole = by_id(measured(replace(TROUBLED["collection"], seed=3)).findings)["PY.GC"]
    monkeypatch.setattr(TraceWriter, "_frames", frames)
    found = measured(replace(TROUBLED["collection"], seed=3)).findings
    assert found.findings[0].id == "PY.GC"
    assert found.findings[0].gain_ns == pytest.approx(whole.gain_ns, rel=0.05)


def test_a_slow_first_step_is_warm_up() -> None:
    slow = replace(TROUBLED["loader"], seed=3, steps=4, dataloader_ns=100_000, stalled_step=0, stall_ns=60_000_000)
    found = measured(slow)
    facts = facts_of(found)
    assert facts.warm_up
    assert "ms of it in torch.utils.data.dataloader.__next__ at train.py:128" in words(found.findings.verdict[0])
    assert len(facts.steps) == 3
    assert "DATA.LOADER" not in by_id(found.findings)
    assert "warm-up" in words(by_id(found.findings)["VERDICT"].detail)
    later = facts_of(measured(replace(slow, stalled_step=2)))
    assert not later.warm_up
    draft = check("DATA.LOADER", later)
    assert isinstance(draft, Draft)
    assert len(steps_of(draft, later)) == 1


def test_a_weight_comes_after_every_gain() -> None:
    for trouble in ("transfers", "slow_python", "ai_cpu"):
        ladder = [each for each in job(trouble).findings.findings if each.severity != "info" and not each.part_of]
        gains = [each.gain_ns is not None and each.step_after_ns is not None for each in ladder]
        assert gains == sorted(gains, reverse=True)


def test_what_crosses_the_end_of_a_step_is_divided() -> None:
    found = measured(replace(TROUBLED["loader"], seed=3, steps=3))
    whole = facts_of(found)
    first, second, third = (each.window for each in whole.steps)
    assert first is not None
    assert second is not None
    assert third is not None
    begin, end = np.array([first.end - 900]), np.array([second.end + 100])
    said = message("finding.nothing")
    draft = Draft("high", said, said, removes=(begin, end))
    assert steps_of(draft, whole) == (whole.steps[1].number,)
    selections = [select_step(found.steps, each.number or 0) for each in whole.steps]
    parts = [found.part(each).facts[0] for each in selections if each is not None]
    assert sum(length_of(each.free) for each in parts) == length_of(whole.free)
    assert sum(length_of(each.host_late) for each in parts) == length_of(whole.host_late)


def test_both_stages_of_the_host_are_slow() -> None:
    """Some operators compile for long, and Python is slow between the others."""
    slow = replace(TROUBLED["slow_python"], slow_lines=(), step_end_sync=True, layers=6, seed=5)
    found = measured(replace(slow, compile_permille=150, compile_ns=2_000_000))
    facts = facts_of(found)
    assert facts.dequeue_idle == pytest.approx(0.5, abs=0.1)
    rows = by_id(found.findings)
    assert words(rows["DISPATCH.STAGE"].title).startswith("Python and CANN are both too slow")
    assert words(rows["DISPATCH.VERTICAL"].title).startswith("The host (Python and CANN)")
    assert "of the host-late time, about half," in words(rows["DISPATCH.VERTICAL"].detail)


def test_memory_that_the_program_gives_back_is_told() -> None:
    trouble = replace(TROUBLED["allocation"], seed=3)
    plain = check("MEM.ALLOC", facts_of(measured(trouble)))
    assert isinstance(plain, Draft)
    assert "empty_cache" not in words(plain.detail)
    found = measured(trouble)
    names = found.trace.names
    frame = next(code for code, name in enumerate(names) if name.endswith(": update_meters"))
    names[frame] = "torch_npu/npu/memory.py(172): empty_cache"
    draft = check("MEM.ALLOC", facts_of(found))
    assert isinstance(draft, Draft)
    assert "empty_cache" in words(draft.detail)
    assert "empty_cache" in words(draft.advice[0])


def test_a_fused_optimizer_counts_where_launches_cost() -> None:
    bound = check("OPT.FUSED", facts_of(job("optimizer")))
    assert isinstance(bound, Draft)
    assert bound.severity != "info"
    assert bound.change is not None
    assert all(0 < cut.keep <= 1 for cut in bound.change.host)
    assert check("OPT.FUSED", facts_of(job("slow_python"))) is None  # its launches are as few as those of a fused one


def test_a_wait_claims_no_pause_behind_it() -> None:
    """A fetch that the host would hide if it did not wait is no merit of the wait."""
    found = measured(replace(TROUBLED["healthy"], world_size=1, seed=3, steps=6, stalled_step=3, stall_ns=70_000_000))
    ladder = [each for each in found.findings.findings if each.severity != "info"]
    assert ladder[0].id == "DATA.LOADER"
    wait = by_id(found.findings).get("SYNC.HOST")
    assert wait is None or (wait.gain_ns or 0) < 0.1 * (ladder[0].gain_ns or 0)


def test_many_waits_count_from_a_few_percent_on() -> None:
    busy = replace(TROUBLED["healthy"], seed=3, world_size=1, layers=4, kernel_ns=300_000, host_op_ns=20_000, steps=3)
    reading = replace(busy, trouble=replace(busy.trouble, reads_in_modules=True))
    # With this threshold what is lost is not proven by drains any more.
    facts = facts_of(measured(reading, thresholds=Thresholds(sync_share=0.08)))
    draft = check("SYNC.HOST", facts)
    assert isinstance(draft, Draft)
    assert length_of(draft.removes) < 0.08 * facts.total
    assert draft.most < 0.1 * facts.total
    assert draft.severity == "high"


def test_a_wait_at_the_end_of_a_step_is_not_what_holds_up_the_next_fetch() -> None:
    fetching = replace(TROUBLED["loader"], seed=3, steps=4)
    found = measured(fetching)
    selection = select_step(found.steps, found.steps[1].number)
    own = by_id(found.part(selection).findings)
    assert own["DATA.LOADER"].gain_ns is not None
    sync = own.get("SYNC.HOST")
    assert sync is None or sync.severity == "info"


def test_copies_that_the_host_waits_for_are_counted() -> None:
    job_of = replace(TROUBLED["copies"], seed=3)
    draft = check("DATA.COPY", facts_of(measured(job_of)))
    assert isinstance(draft, Draft)
    assert "waits" not in words(draft.detail)
    blocking = replace(job_of, trouble=replace(job_of.trouble, blocking_copies=True))
    draft = check("DATA.COPY", facts_of(measured(blocking)))
    assert isinstance(draft, Draft)
    copies = words(draft.detail).split(" copies")[0]
    assert f"The host waits for {copies} copies to end." in words(draft.detail)


def test_places_that_evidence_leaves_out_count_for_the_steps() -> None:
    """Three of 25 places are evidence: all in the first step, where the others are in the later ones."""
    whole = facts_of(measured(replace(TROUBLED["loader"], seed=3, steps=3)))
    starts = [each.window.start for each in whole.steps if each.window is not None]
    shown, first = (np.array(starts), np.array(starts) + 9), starts[0]
    place = Evidence(first, first + 9, None, "aten::matmul", "")
    said = message("finding.nothing")
    draft = Draft("low", said, said, (place,) * 3)
    assert steps_of(draft, whole) == (), "there may be more of them anywhere"
    assert steps_of(Draft("low", said, said, (place,) * 3, shown=shown), whole) == tuple(
        step.number for step in whole.steps
    )


def test_what_compiles_is_told_with_all_of_its_time_its_operator_and_its_line(tmp_path: Path):
    calm = replace(TROUBLED["healthy"], world_size=1)
    compiling = replace(calm, compile_permille=1000, compile_ns=4_500_000)
    files = first_of((compiling,))
    whole = by_id(measured(compiling).findings)["OP.COMPILE"]
    (trace,) = (name for name in files if name.endswith("trace_view.json"))
    events = json.loads(files[trace])
    for event in events:
        if event.get("name") == "AscendCL@aclopCompileAndExecute":
            event["dur"] *= 0.4  # the entry of the queue around it takes as long as before
    put({**files, trace: json.dumps(events).encode()}, tmp_path / "p")
    found = by_id(profile_at(tmp_path / "p").findings)
    assert found["OP.COMPILE"].gain_ns == pytest.approx(whole.gain_ns, rel=0.03)
    assert words(found["OP.COMPILE"].title) == words(whole.title)
    assert words(whole.title).startswith("Compiling operators (")
    assert ") at " in words(whole.title)
    assert "HOST.WORK" not in found


def test_what_the_program_does_in_a_first_step_is_no_warm_up(tmp_path: Path):
    """A profile begins with a step in which something is written. One that fetches, or begins the job, is left out."""
    slow = replace(TROUBLED["loader"], seed=3, steps=4, dataloader_ns=100_000, stalled_step=0, stall_ns=60_000_000)
    files = first_of((slow,))
    (trace,) = (name for name in files if name.endswith("trace_view.json"))
    text = files[trace].decode()
    first = min(int(number) for number in re.findall(r"ProfilerStep#(\d+)", text))

    def since(begin: int) -> str:
        return re.sub(r"ProfilerStep#(\d+)", lambda step: f"ProfilerStep#{int(step[1]) - first + begin}", text)

    found = {}
    texts = {"fetched": since(40)} | {name: re.sub("(?i)dataloader", "writer", since(begin))
                                      for name, begin in (("begun", 0), ("written", 40))}  # fmt: skip
    for name, content in texts.items():
        put({**files, trace: content.encode()}, tmp_path / name)
        found[name] = profile_at(tmp_path / name)
    assert [len(profile.facts[0].warm_up) for profile in found.values()] == [1, 1, 0]
    lead = found["written"].findings.findings[0]
    assert lead.id == "HOST.WORK"
    (facts,) = found["written"].facts
    length = facts.length(np.array([step.item for step in facts.steps], np.int64))
    assert lead.gain_ns == pytest.approx((length.max() - np.median(length)) / len(length), rel=0.1)
    assert "Mainly in step 40" in words(lead.detail)
    assert "warm-up" not in text_report(report(found["written"]))
    assert "warm-up" in text_report(report(found["begun"]))
