"""A profile that is half there is said to be half, and why."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from measured import profile_at

from npu_tui.strings import words

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"


def half(folder: Path, name: str = "host_1_2026_ascend_pt") -> Path:
    """A profile of which CANN's part alone has been exported."""
    place = folder / name
    (place / "FRAMEWORK").mkdir(parents=True)
    shutil.copytree(FIXTURES / "msprof_two_devices", place / "PROF_000001_2026_A")
    return place


@pytest.mark.parametrize("name", ["host_1_2026_ascend_pt", "host_1_2026_ascend_ms"])
def test_an_analysis_that_has_not_ended_is_told_first(name: str, tmp_path: Path) -> None:
    place = half(tmp_path, name)
    for opened in (place, place / "PROF_000001_2026_A"):
        found = profile_at(opened).findings
        assert words(found.verdict[0]).startswith(f"The analysis of {place} has not finished")
        assert len(found.verdict) > 1
        advice = {one.code for finding in found.findings for one in finding.advice}
        assert not advice & {"finding.advice.record_host", "finding.advice.record_launches"}
    (place / "ASCEND_PROFILER_OUTPUT").mkdir()  # it is made empty first
    assert "has not finished" in words(profile_at(place).findings.verdict[0])


def test_a_whole_profile_and_one_of_msprof_alone_are_not(tmp_path: Path) -> None:
    place = half(tmp_path)
    shutil.copytree(FIXTURES / "dispatch_bound" / "ASCEND_PROFILER_OUTPUT", place / "ASCEND_PROFILER_OUTPUT")
    shutil.copytree(FIXTURES / "msprof_two_devices", tmp_path / "PROF_000002_2026_A")
    for opened in (place, place / "PROF_000001_2026_A", tmp_path / "PROF_000002_2026_A"):
        assert "has not finished" not in words(profile_at(opened).findings.verdict[0])


@pytest.mark.parametrize(
    ("raw", "said"),
    [("device_0", "its part of the analysis failed"), ("host", "nothing of a device"), ("", "Likely reasons")],
)
def test_a_trace_without_a_device_says_why_that_may_be(raw: str, said: str, tmp_path: Path) -> None:
    place = tmp_path / "host_1_2026_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
    place.mkdir(parents=True)
    (place / "trace_view.json").write_text(
        '[{"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "Python"}},'
        ' {"ph": "X", "name": "aten::add", "cat": "cpu_op", "pid": 1, "tid": 1, "ts": "1.0", "dur": 2.0, "args": {}}]'
    )
    if raw:
        (place.parent / "PROF_000001_2026_A" / raw).mkdir(parents=True)
    found = profile_at(place.parent).findings
    assert said in words(found.verdict[1])
