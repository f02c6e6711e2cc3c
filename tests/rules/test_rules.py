"""Each rule fires where its trouble is and stays silent where it is not; its thresholds are what decides."""

from __future__ import annotations

import inspect
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from dialect import NEWEST, OLDER_CHIP, STARS, Dialect
from jobs import by_id, check, facts_of, job, measured, rule
from measured import findings_of
from msgspec import structs
from situations import SITUATIONS
from troubled import TROUBLED

from npu_tui.analysis.device import Window
from npu_tui.analysis.limits import Thresholds
from npu_tui.load.load import load
from npu_tui.profile.parts import Selection
from npu_tui.rules import FAMILIES
from npu_tui.rules.blame import fixed_pauses
from npu_tui.rules.compute import verdict
from npu_tui.rules.facts import Facts
from npu_tui.rules.find import RULES, THRESHOLDS
from npu_tui.rules.inputs import Setup, length_of, without
from npu_tui.rules.rule import Draft, Rule, Skipped
from npu_tui.rules.service import SERVICE_RULES
from npu_tui.strings import texts_of, words

ROOT = Path(__file__).resolve().parents[2]

#: A job in which the rule speaks above info, and one in which it does not; thresholds that make it silent in the first.
SPEAKS = {
    "DISPATCH.VERTICAL": ("slow_python", "healthy", {"starved_fewest": 1000}),
    "DISPATCH.FREE": ("slow_python", "healthy", {"free_share": 1.0}),
    "DISPATCH.STAGE": ("slow_python", "healthy", {"severity_medium": 1.0}),
    "DISPATCH.QUEUE": ("queue_off", "slow_python", {"severity_medium": 1.0}),
    "DISPATCH.INTERRUPT": ("slow_python", "healthy", {"severity_medium": 2.0, "interruptions_fewest": 1000}),
    "SYNC.HOST": ("metrics", "slow_python", {"sync_share": 1.0}),
    "OP.COMPILE": ("compile", "healthy", {"sync_share": 10.0}),
    "STEP.START": ("step_start", "healthy", {"severity_high": 1.0}),
    "HOST.WORK": ("sorting", "healthy", {"severity_medium": 1.0}),
    "HOST.CORE": ("one_core", "slow_python", {"severity_medium": 1.0}),
    "HOST.CPU": ("preempted", "undisturbed", {"severity_medium": 1.0}),
    "HOST.QUOTA": ("limited", "slow_python", {"severity_medium": 1.0}),
    "OP.SMALL": ("slow_python", "healthy", {"small_kernel_share": 1.0}),
    "OPT.FUSED": ("optimizer", "slow_python", {"sync_share": 1.0, "severity_medium": 1.0}),
    "COMM.STRAGGLER": ("two_late", "transfers", {"severity_medium": 1.0, "severity_high": 1.0}),
    "COMM.EXPOSED": ("transfers", "healthy", {"exposed_share": 1.0}),
    "COMM.NEEDLESS": ("repeated", "transfers", {"severity_medium": 1.0}),
    "COMM.SMALL": ("buckets", "transfers", {"severity_medium": 1.0}),
    "COMM.SPEED": ("slow_all", "transfers", {"link_speed": 0.01}),
    "COMM.LONGOP": ("slow_once", "straggler", {"long_op_factor": 1e6}),
    "OP.DOMINANT": ("ai_cpu", "healthy", {"dominant_share": 1.0}),
    "KERNEL.BOUND": ("ai_cpu", "healthy", {"small_kernel_us": 1e9}),
    "OP.AFFINITY_KERNEL": ("ai_cpu", "healthy", {"sync_share": 1.0}),
    "DATA.LOADER": ("loader", "healthy", {"loader_least_ms": 1e6}),
    "DATA.COPY": ("copies", "healthy", {"copy_share": 1.0}),
    "MEM.ALLOC": ("allocation", "healthy", {"sync_share": 10.0}),
    "PY.GC": ("collection", "healthy", {"sync_share": 10.0}),
    "STEP.ODD": ("longer_step", "healthy", {"severity_medium": 1.0}),
    "FREQ": ("clock", "healthy", {"frequency_drop": 1.0}),
}


def severity(wanted: str, trouble: str, **limits: float) -> str | None:
    draft = check(wanted, facts_of(job(trouble), thresholds=Thresholds(**limits)))
    return draft.severity if isinstance(draft, Draft) else None


@pytest.mark.parametrize("wanted", SPEAKS)
def test_speaks_and_stays_silent(wanted: str) -> None:
    trouble, peace, limits = SPEAKS[wanted]
    assert severity(wanted, trouble) in ("high", "medium", "low")
    assert severity(wanted, peace) in (None, "info")
    if limits:
        assert set(limits) <= {each.name for each in rule(wanted).thresholds}
        assert severity(wanted, trouble, **limits) in (None, "info")


def test_sizes_of_transfers_matter_where_these_are_slow() -> None:
    assert severity("COMM.LINK", "transfers") == "info"
    slow = {"contention_gb_s": 1e6}
    assert severity("COMM.LINK", "transfers", **slow) == "low"
    assert severity("COMM.LINK", "healthy", **slow) in (None, "info")
    assert severity("COMM.LINK", "transfers", alignment_bytes=1) in (None, "info")


def test_every_threshold_belongs_to_a_rule_and_is_explained() -> None:
    named = {each.name for own in (*RULES, *SERVICE_RULES) for each in own.thresholds}
    of_all = {"compute_hidden"}
    assert {each.name for each in THRESHOLDS} == named | of_all
    assert len({each.name for each in THRESHOLDS}) == len(THRESHOLDS)
    declared = re.findall(
        r'= Threshold\("(\w+)"', "".join(file.read_text() for file in (ROOT / "npu_tui").rglob("*.py"))
    )
    assert sorted(declared) == sorted(each.name for each in THRESHOLDS)
    assert {f"threshold.{name}" for name in declared} == {key for key in texts_of("en") if key.startswith("threshold.")}


@pytest.mark.parametrize("own", RULES, ids=[each.id for each in RULES])
def test_a_rule_names_the_thresholds_that_it_reads(own: Rule) -> None:
    source = inspect.getsource(own.check)
    used = set(re.findall(r"\blimits\[(\w+)\]", source)) | ({"SEVERITY_HIGH"} if "severity_of(" in source else set())
    assert used <= {each.name.upper() for each in own.thresholds}


def test_a_rule_that_asks_for_the_model_of_the_run_says_so() -> None:
    asking: set[str] = set()
    for trouble in sorted({trouble for trouble, _, _ in SPEAKS.values()}):
        for each in RULES:
            setup = structs.replace(job(trouble).setup, environment={"ACLNN_CACHE_LIMIT": "1"})
            facts = facts_of(job(trouble), setup, replay_of=lambda device, each=each: asking.add(each.id))
            if all(facts.has(needed) for needed in each.inputs):
                each.check(facts)
    # ``cloned`` of test_cheaper, test_second_backward.
    elsewhere = {"OP.NOGRAD", "OP.BACKWARD"}
    assert asking | elsewhere == {each.id for each in RULES if each.replayed}
    assert not asking & elsewhere


def test_every_module_with_rules_is_a_family() -> None:
    files = (ROOT / "npu_tui" / "rules").glob("*.py")
    with_rules = {file.stem for file in files if re.search(r"^RULES.* = \($", file.read_text(encoding="utf-8"), re.M)}
    assert with_rules == set(FAMILIES)
    assert len(FAMILIES) == len(with_rules)


def test_ids_are_unique_and_sourced() -> None:
    assert len({each.id for each in RULES}) == len(RULES) >= 45
    assert all(each.sources for each in RULES)


def test_the_two_that_sum_up_come_last() -> None:
    for trouble, poor in (("healthy", False), ("slow_python", True), ("transfers", True)):
        found = by_id(job(trouble).findings)
        assert found["UTIL"].severity == "info"
        assert (found["UTIL"].title.code == "finding.util.title_poor") is poor
        assert found["VERDICT"].severity == "info"
        assert not found["UTIL"].hidden
        assert [each.id for each in job(trouble).findings.findings[-2:]] in (["UTIL", "VERDICT"], ["VERDICT", "UTIL"])
    assert "computing" in words(by_id(job("healthy").findings)["VERDICT"].title)
    assert "communication" in words(by_id(job("transfers").findings)["VERDICT"].title)
    assert "launches" in words(by_id(job("slow_python").findings)["VERDICT"].title)


def test_matrix_work_is_no_reproach(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = facts_of(job("healthy"), thresholds=Thresholds(share_cube=0.1))
    share = check("OP.SHARE", facts)
    assert isinstance(share, Draft)
    assert share.severity == "info"
    other = next(name for name in facts.kernel_types[0] if "MatMul" not in name)
    for time, dominant, severity in ((20, "MatMulV2", "info"), (40, other, "medium")):
        monkeypatch.setattr(Facts, "time_by_type", {"MatMulV2": 100 - time, other: time})
        draft = check("OP.DOMINANT", facts_of(job("healthy")))
        assert isinstance(draft, Draft)
        assert draft.severity == severity
        assert words(draft.title).startswith(f"{dominant} takes ")


@pytest.mark.parametrize(("dialect", "told"), [(NEWEST, True), (OLDER_CHIP, True), (STARS, False)])
def test_copies_tell_their_bytes_and_direction_where_the_trace_does(dialect: Dialect, told: bool) -> None:
    found = by_id(measured(replace(TROUBLED["copies"], dialect=dialect)).findings)["DATA.COPY"]
    assert ("By direction: " in words(found.detail)) == told
    assert ("host to device" in words(found.detail)) == told


def test_affinity_of_operations_is_info_for_an_approximation() -> None:
    draft = check("OP.AFFINITY_API", facts_of(job("healthy")))
    assert isinstance(draft, Draft)
    assert draft.severity == "info"
    assert "gelu" in words(draft.detail)
    assert draft.code_lines[0].line == 77


def test_compute_is_hidden_where_it_is_not_the_matter() -> None:
    assert all(
        each.hidden for each in job("transfers").findings.findings if each.cls == "compute" and each.id != "VERDICT"
    )
    assert not any(each.hidden for each in job("ai_cpu").findings.findings)


def test_no_overlap_advice_where_a_rank_is_late() -> None:
    late = by_id(job("straggler").findings)["COMM.EXPOSED"]
    assert any("late rank" in words(each) for each in late.advice)
    assert not any("Overlap" in words(each) for each in late.advice)
    assert any("Overlap" in words(each) for each in by_id(job("transfers").findings)["COMM.EXPOSED"].advice)
    order = [each.id for each in job("straggler").findings.findings]
    assert order.index("COMM.STRAGGLER") < order.index("COMM.EXPOSED")


def test_the_step_of_the_only_slow_collective_is_named() -> None:
    slow = replace(TROUBLED["slow_once"], trouble=replace(TROUBLED["slow_once"].trouble, slow_once=40))
    once, several = (measured(replace(slow, steps=4, **shape)) for shape in ({"one_bucket": True}, {"layers": 5}))
    told = f"in 1 collective, in step {once.steps[1].number} alone:"
    assert told in words(by_id(once.findings)["COMM.LONGOP"].title)
    assert "alone" not in words(by_id(several.findings)["COMM.LONGOP"].title)


def test_the_late_rank_is_named() -> None:
    found = by_id(job("straggler").findings)["COMM.STRAGGLER"]
    assert words(found.title).startswith("Rank 2 is late")
    assert "There is no profile of rank 2 here." in words(found.detail)
    facts = facts_of(job("straggler"), Setup(ranks=(0, 2)))
    draft = check("COMM.STRAGGLER", facts)
    assert isinstance(draft, Draft)
    assert "next to this one" in words(draft.detail)


def test_too_few_launches_are_no_verdict() -> None:
    small = measured(replace(SITUATIONS["interrupted"], steps=1, layers=1, modules=1))
    draft = check("DISPATCH.VERTICAL", facts_of(small))
    assert isinstance(draft, Skipped)
    assert "DISPATCH.VERTICAL" in dict(small.findings.not_checked)


def test_a_device_that_is_free_in_spite_of_its_launches_is_not_compute_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    sums = facts_of(job("healthy")).sums
    assert words(verdict(facts_of(job("healthy"))).title).startswith("The largest part of the device time is computing")
    monkeypatch.setattr(Facts, "sums", structs.replace(sums, free=3 * sums.total))
    told = words(verdict(facts_of(job("healthy"))).title)
    assert told == "The device is free longer than it works, and the launches that it waited for are not known"


def test_launch_blocking_is_high() -> None:
    facts = facts_of(job("metrics"), thresholds=Thresholds(sync_blocking=0.1))
    draft = check("SYNC.HOST", facts)
    assert isinstance(draft, Draft)
    assert draft.severity == "high"
    assert "ASCEND_LAUNCH_BLOCKING" in words(draft.advice[0])
    assert draft.title.code == "finding.sync.title", "the waits of all launches are not those of one line"
    assert "A sync directly follows" in words(draft.detail)
    setup = structs.replace(job("metrics").setup, environment={"ASCEND_LAUNCH_BLOCKING": "1"})
    draft = check("SYNC.HOST", facts_of(job("metrics"), setup))
    assert isinstance(draft, Draft)
    said = words(draft.detail)
    assert "ASCEND_LAUNCH_BLOCKING=1 is set" in said
    assert "100%" not in said  # nobody has counted


def test_the_first_sentence_tells_what_small_kernels_and_unnamed_ranks_cost() -> None:
    small = check("OP.SMALL", facts_of(job("slow_python")))
    assert isinstance(small, Draft)
    assert small.verdict is not None
    said = "DISPATCH: the NPU waits 1.125 ms per step for the launches of small kernels: 55.0% of all are"
    assert words(small.verdict).startswith(said)
    late = measured(replace(TROUBLED["straggler"], profiler_level=0)).findings.findings[0]
    assert late.id == "COMM.EXPOSED"
    assert words(late.title) == (
        "Communication is exposed for 10.74 ms per step (63.6%), 7.929 ms of it waiting for a rank that no task names"
    )


def test_what_needs_a_file_names_it() -> None:
    missing = dict(job("healthy").findings.not_checked)
    assert "kernel_details.csv" in words(missing["DTYPE"])
    assert "kernel_details.csv" in words(missing["MEM.BW"])
    assert "memory_record.csv" in words(missing["MEM.PRESSURE"])
    assert "profiler_metadata.json" in words(missing["ENV/STARTUP"])
    assert "Level1" in words(dict(measured(SITUATIONS["level0"]).findings.not_checked)["COMM.STRAGGLER"])


def kernel(**cells: str) -> dict[str, str | None]:
    return {"Name": "k", "Type": "MatMulV2", "Accelerator Core": "AI_CORE", "Duration(us)": "100", **cells}


def test_tables_beside_the_trace() -> None:
    found = job("healthy")
    plain = kernel(**{"Input Data Types": '"FLOAT;FLOAT"', "aic_mte2_ratio": "0.97", "OP State": "dynamic"})
    half = kernel(**{"Input Data Types": "FLOAT16;FLOAT16", "aic_mte2_ratio": "0.4", "OP State": "static"})
    facts = facts_of(found, kernels=[plain, plain, half])
    for wanted, severity, said in (
        ("DTYPE", "high", "66.67 µs a step; in 16 bits 16.67 µs at best"),
        ("MEM.BW", "low", "66.7%"),
    ):
        draft = check(wanted, facts)
        assert isinstance(draft, Draft)
        assert draft.severity == severity
        assert said in words(draft.title)
        assert check(wanted, facts_of(found, kernels=[half, half, half])) is None
    assert check("KERNEL.BOUND", facts) is None
    dynamic = check("KERNEL.BOUND", facts_of(found, kernels=[plain]))
    assert isinstance(dynamic, Draft)
    assert dynamic.severity == "info"
    odd = facts_of(found, kernels=[kernel(**{"Duration(us)": "many", "aic_mte2_ratio": "nan"})])
    assert not odd.has("kernel_details")
    assert not odd.has("pmu")


@pytest.mark.parametrize(("eligible", "named"), [("NO", True), ("YES", False), (None, False)])
def test_hf32_is_named_where_products_in_float_do_without_it(eligible: str | None, named: bool) -> None:
    row = kernel(**{"Input Data Types": '"FLOAT;FLOAT"'})
    row |= {"HF32 Eligible": eligible} if eligible else {}
    draft = check("DTYPE", facts_of(job("healthy"), kernels=[row] * 3))
    assert isinstance(draft, Draft)
    assert any("allow_hf32" in words(advice) for advice in draft.advice or ()) == named


def test_environment() -> None:
    found = job("healthy")
    good = {
        "ASCEND_GLOBAL_LOG_LEVEL": "3",
        "HCCL_RDMA_TC": "",
        "ACLNN_CACHE_LIMIT": "100000",
        "HOST_CACHE_CAPACITY": "20",
        "PYTORCH_NPU_ALLOC_CONF": "expandable_segments:True",
        "ASCEND_LAUNCH_BLOCKING": "",
    }
    assert check("ENV/STARTUP", facts_of(found, Setup(environment=good))) is None
    for name, value, expected in (
        ("ASCEND_GLOBAL_LOG_LEVEL", "1", "low"),
        ("ACLNN_CACHE_LIMIT", "500", "low"),
        ("PYTORCH_NPU_ALLOC_CONF", "", "low"),
        ("ASCEND_LAUNCH_BLOCKING", "1", "medium"),
    ):
        draft = check("ENV/STARTUP", facts_of(found, Setup(environment=good | {name: value})))
        assert isinstance(draft, Draft)
        assert draft.severity == expected
        assert name in words(draft.title)


def test_memory_pressure() -> None:
    def facts(reserved: str, allocated: str):
        rows = [{"Component": "APP", "Total Reserved(MB)": "99999999", "Total Allocated(MB)": None}]
        rows += [{"Component": "PTA", "Total Reserved(MB)": reserved, "Total Allocated(MB)": allocated}]
        return facts_of(job("healthy"), memory=rows)

    draft = check("MEM.PRESSURE", facts("40960", "20480"))
    assert isinstance(draft, Draft)
    assert draft.severity == "medium"
    assert "2.00" in words(draft.title)
    assert check("MEM.PRESSURE", facts("1452", "954")) is None
    assert check("MEM.PRESSURE", facts("40960", "39000")) is None
    assert not facts("much", "39000").has("memory")


def test_profiler_pauses() -> None:
    limits = Thresholds(profiler_gap_low_us=70.0, profiler_gap_high_us=120.0)  # the simulator's pauses spread wider
    paused = measured(replace(TROUBLED["healthy"], seed=3, task_gap_ns=95_000), thresholds=limits)
    draft = check("PROFILER.OVERHEAD", facts_of(paused, Setup(settings={"_l2_cache": True}), limits))
    assert isinstance(draft, Draft)
    assert "l2_cache" in words(draft.detail)
    found = by_id(paused.findings)["PROFILER.OVERHEAD"]
    assert found.step_after_ns is None
    assert found.gain_ns
    facts = paused.facts[0]
    pauses = fixed_pauses(facts)
    assert pauses is not None
    # Beside a collective the next kernel may as well wait.
    alone = length_of(without(pauses.span, facts.exposed))
    assert alone < length_of(pauses.span)
    assert found.gain_ns == pytest.approx(alone / facts.count, rel=1e-3)
    assert check("PROFILER.OVERHEAD", facts_of(job("healthy"))) is None
    # Pauses of any length are the job's own.
    spread = measured(replace(TROUBLED["healthy"], seed=3, task_gap_ns=55_000))
    assert check("PROFILER.OVERHEAD", facts_of(spread, thresholds=limits)) is None


def test_overlap_analysis_alone(tmp_path: Path) -> None:
    """A trace with nothing of the device but its Overlap Analysis layer."""
    file = ROOT / "fixtures" / "dispatch_bound" / "ASCEND_PROFILER_OUTPUT" / "trace_view.json"
    events = json.loads(file.read_text())
    pids = {e["pid"] for e in events if e["name"] == "process_name" and e["args"]["name"] == "Overlap Analysis"}
    (tmp_path / "trace_view.json").write_text(json.dumps([e for e in events if e["pid"] in pids]))
    found = by_id(findings_of(load(tmp_path / "trace_view.json")))
    assert found["DISPATCH.FREE"].confidence == "low"
    assert found["DISPATCH.FREE"].gain_ns is None
    assert all(words(place.note).endswith("until the end") for place in found["DISPATCH.FREE"].evidence)


def test_a_range_keeps_what_lies_in_it() -> None:
    low, high = 2_000_000, 6_000_000
    found = measured(replace(TROUBLED["slow_python"], seed=5), Selection(Window(low, high))).findings
    gains = [each.gain_ns or 0 for each in found.findings if each.part_of is None and each.step_after_ns is not None]
    assert gains
    assert sum(gains) <= high - low
