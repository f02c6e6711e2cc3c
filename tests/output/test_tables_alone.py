"""A profile without a trace is reported by its tables, with the findings they allow."""

from __future__ import annotations

from pathlib import Path

import pytest
from beside import profile_with_files
from measured import profile_at
from written import html_report, markdown_report, text_report

from npu_tui.output.report import report
from npu_tui.output.report_schema import Report
from npu_tui.profile.profile import Profile

HEALTHY = Path(__file__).resolve().parents[2] / "fixtures" / "healthy"


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Report, Report, Profile]:
    """The report with the trace, the one without, and the profile without."""
    folder = profile_with_files(HEALTHY, tmp_path_factory.mktemp("alone") / "profile")
    whole = report(profile_at(folder))
    (folder / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").unlink()
    alone = profile_at(folder)
    return whole, report(alone), alone


def test_the_figures_are_those_of_the_trace(both: tuple[Report, Report, Profile]) -> None:
    whole, alone, _ = both
    assert alone.trace.slices == 0
    assert [(each.type, each.core, each.count, each.total_us) for each in alone.operators] == [
        (each.type, each.core, each.count, each.total_us) for each in whole.operators
    ]
    for name in ("computing_us", "communication_not_overlapped_us", "free_us", "stage_us"):
        assert [getattr(each, name) for each in alone.steps] == pytest.approx(
            [getattr(each, name) for each in whole.steps], abs=0.01
        )
    assert [each.step for each in alone.steps] == [each.step for each in whole.steps]
    assert [(each.name, each.elapsed_us) for each in alone.communication] == [
        (each.name, each.elapsed_us) for each in whole.communication
    ]
    assert alone.kernel_groups == whole.kernel_groups
    assert [each.peak_bytes for each in alone.memory.peaks] == [each.peak_bytes for each in whole.memory.peaks]
    assert [(each.file, each.differing) for each in alone.cross_check] == [
        ("op_statistic.csv", 0), ("memory_record.csv", 0),
    ]  # fmt: skip


def test_it_says_what_is_missing_and_what_it_finds(both: tuple[Report, Report, Profile]) -> None:
    _, alone, profile = both
    found = {each.id: each for each in alone.findings}
    assert {"MEM.BW", "KERNEL.PIPE", "MEM.L2"} <= set(found)
    assert found["MEM.BW"].severity == "low"
    assert "step_trace_time.csv" in alone.verdict[0]
    text = " ".join(text_report(alone).split())
    assert "no slices, only curves of memory" in text
    assert "Kernels by shapes" in text
    assert "Links between ranks" in text
    for page in (markdown_report(alone), html_report(alone, profile)):
        assert "Kernels by shapes" in page
        assert "Files beside the trace" in page
