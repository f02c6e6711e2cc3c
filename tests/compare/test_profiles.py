"""Every profile against itself, and the real ones against each other, with the figures of the profiler's own files."""

import json
import os
from pathlib import Path

import msgspec
import pytest
from written import fields_of, markdown_comparison, text_comparison

from npu_tui.cli.main import main
from npu_tui.compare.comparison import ProfileComparison
from npu_tui.compare.differences import differences
from npu_tui.compare.measured import MeasuredSide
from npu_tui.load.load import opening_of
from npu_tui.output.compare_report import compared as typed
from npu_tui.profile.profile import Profile
from tests.conftest import WITHOUT_TRACES

_FIXTURES = Path(__file__).parents[2] / "fixtures"
_NAMES = sorted(
    path.parent.name
    for path in _FIXTURES.glob("*/truth.json")
    if path.parent.name not in ("two_ranks", "chrome_generic")  # a job, and loose files
)
_TRACES = os.environ.get("NPU_TUI_TRACES")
_REAL = pytest.mark.skipif(_TRACES is None, reason=WITHOUT_TRACES)


def opened(path):
    opening = opening_of(path, cached=False)
    return Profile(opening.trace(), opening.source)


def real(name):
    return opened(Path(_TRACES or ".") / name)


@pytest.mark.parametrize("name", _NAMES)
def test_a_profile_and_itself(name):
    profile = opened(_FIXTURES / name)
    found = ProfileComparison(MeasuredSide(profile), MeasuredSide(profile))
    if found.comparability.verdict == "incomparable":
        assert not found.base.circumstances.device
        return
    assert found.step.verdict == "same"
    assert found.step.delta == 0
    assert [part.delta for part in found.parts] == [0] * len(found.parts)
    assert {row.change for row in found.groups} <= {"same"}
    assert all(row.delta == 0 for row in found.lines)
    assert found.operations_matched in (None, 1.0)
    assert found.kernels_matched in (None, 1.0)
    assert differences(found) == []
    report = typed(found)
    assert text_comparison(report)
    assert markdown_comparison(report)
    assert json.loads(msgspec.json.encode(report))["kind"] == "compare"


_REAL_NAMES = [
    "text/level0/rank0_ascend_pt",
    "text/level1/rank1_ascend_pt",
    "db/level0/rank1_ascend_pt",
    "db/level1/rank0_ascend_pt",
    "single_card",
]


@_REAL
@pytest.mark.parametrize("name", _REAL_NAMES)
def test_a_real_profile_and_itself(name, capsys):
    profile = real(name)
    found = ProfileComparison(MeasuredSide(profile), MeasuredSide(profile))
    assert found.step.verdict == "same"
    assert found.step.delta == 0
    assert [part.exact for part in found.parts] == [0] * len(found.parts)
    assert found.operations_matched in (None, 1.0)
    assert found.kernels_matched in (None, 1.0)
    assert differences(found) == []
    assert typed(found).profile_findings == []


@_REAL
@pytest.mark.parametrize(
    "names",
    [
        ("text/level1/rank0", "text/level1/rank1"),
        ("text/level0/rank0", "text/level1/rank0"),
        ("text/level1/rank0", "db/level1/rank0"),
    ],
    ids="-".join,
)
def test_turned_round_a_comparison_is_its_negative(names):
    base, new = (real(f"{name}_ascend_pt") for name in names)
    there, back = (
        typed(ProfileComparison(MeasuredSide(base), MeasuredSide(new))),
        typed(ProfileComparison(MeasuredSide(new), MeasuredSide(base))),
    )
    assert there.step.delta_us == -back.step.delta_us
    deltas = [[part.delta_us for part in found.parts if part.delta_us is not None] for found in (there, back)]
    assert deltas[0] == [-each for each in deltas[1]]
    assert sum(deltas[0]) == pytest.approx(there.step.delta_us, abs=0.001 * len(there.parts))
    words = {"new": "gone", "gone": "new", "slower": "faster", "faster": "slower", "more": "fewer", "fewer": "more"}
    turned = sorted((row.type, words.get(row.change, row.change), -row.delta_us) for row in back.groups)
    assert sorted((row.type, row.change, row.delta_us) for row in there.groups) == turned


@_REAL
def test_two_ranks_of_one_job():
    found = ProfileComparison(
        MeasuredSide(real("text/level1/rank0_ascend_pt")), MeasuredSide(real("text/level1/rank1_ascend_pt"))
    )
    assert found.comparability.verdict == "same_job"
    delta = {part.part: part.delta for part in found.parts}
    assert delta["computing"] == 4_539
    assert delta["wait"] + delta["transfer"] == pytest.approx(-5_604_156, abs=1_000)
    assert delta["host_late"] + delta["device_side"] + delta["unlinked"] == pytest.approx(931_224, abs=1_000)
    assert len(found.operations.base) == 859  # and the step itself
    assert found.operations_matched == 1.0
    assert len(found.collectives) == 4
    assert all(row.base and row.new for row in found.collectives)
    assert found.step.verdict == "unsure"
    assert found.computing.verdict == "same"


@_REAL
def test_two_levels_of_the_profiler():
    found = ProfileComparison(
        MeasuredSide(real("text/level0/rank0_ascend_pt")), MeasuredSide(real("text/level1/rank0_ascend_pt"))
    )
    delta = {part.part: round(part.delta / 1e6, 3) for part in found.parts}
    assert delta["prep"] == -1.456
    assert delta["computing"] == 0.046
    assert delta["exposed"] == 20.448
    assert round(delta["host_late"] + delta["device_side"] + delta["unlinked"], 3) == -0.164
    assert delta["tail"] == 0.214
    assert found.computing.verdict == "same"
    assert {row.change for row in found.groups} == {"same"}
    assert [each.code for each in found.comparability.not_judged] == ["compare.skipped.short_kernels"]


def run(capsys, *words):
    code = main(["compare", "--no-cache", *map(str, words)])
    return code, capsys.readouterr()


def test_exit_codes(capsys):
    base, new = _FIXTURES / "healthy", _FIXTURES / "dispatch_bound"
    assert run(capsys, base, base, "--fail-on", "slower,unsure")[0] == 0
    assert run(capsys, new, base, "--fail-on", "slower")[0] == 1
    ranks = _FIXTURES / "two_ranks"
    unsure = ranks / "rank1_ascend_pt", ranks / "rank0_ascend_pt"
    assert run(capsys, *unsure, "--fail-on", "unsure")[0] == 1
    assert run(capsys, *unsure, "--fail-on", "slower")[0] == 0
    assert run(capsys, base, base.parent / "missing")[0] == 3
    for words in (["--fail-on", "worse"], ["--tolerance", "x"], ["--step", "x"], ["--step", "999"], ["--ignore", "X"]):
        with pytest.raises(SystemExit) as stopped:
            run(capsys, base, new, *words)
        assert stopped.value.code == 2


def test_formats_and_steps(capsys):
    base = _FIXTURES / "healthy"
    code, out = run(capsys, base, base, "--format", "json", "--step", "20..21", "--tolerance", "step=5%,computing=2%")
    report = fields_of(out.out)
    assert code == 0
    assert [each["step"] for each in report["base"]["steps"]] == [20, 21]
    assert report["base"]["left_out"] == []
    assert run(capsys, base, base, "--format", "markdown")[1].out.startswith("## SAME")
