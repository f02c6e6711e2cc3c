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
    assert {"MEM.BW", "MEM.L2"} <= set(found)
    assert found["MEM.BW"].severity == "low"
    assert "step_trace_time.csv" in alone.verdict[0]
    text = " ".join(text_report(alone).split())
    assert "no slices, only curves of memory" in text
    assert "Kernels by shapes" in text
    assert "Links between ranks" in text
    for page in (markdown_report(alone), html_report(alone, profile)):
        assert "Kernels by shapes" in page
        assert "Files beside the trace" in page


OP_SUMMARY = """\
Model Name,Model ID,Task ID,Stream ID,Op Name,OP Type,Task Type,Task Start Time,Task Duration(us),Task Wait Time(us)
N/A,1,1,2,conv_1,Conv2D,AI_CORE,"1780000000000000.125\t",400,0
N/A,1,2,2,conv_2,Conv2D,AI_CORE,"1780000000000600.125\t",400,0
"""
TASK_TIME = """\
Device_id,kernel_name,kernel_type,stream_id,task_id,task_time(us),task_start(us),task_stop(us)
0,Conv2D_1,KERNEL_AICORE,2,1,400,"1780000000000000.0\t","1780000000000400.0\t"
0,MEMCPY_ASYNC,MEMCPY_ASYNC,4,1,100,"1780000000000400.0\t","1780000000000500.0\t"
0,NOTIFY_WAIT,NOTIFY_WAIT,21,1,150,"1780000000000450.0\t","1780000000000600.0\t"
0,MEMCPY_ASYNC,MEMCPY_ASYNC,21,2,50,"1780000000000600.0\t","1780000000000650.0\t"
0,Conv2D_2,KERNEL_AICORE,2,2,350,"1780000000000650.0\t","1780000000001000.0\t"
"""


@pytest.mark.parametrize(
    ("file", "text", "shares"),
    [
        ("op_summary_0_1_1.csv", OP_SUMMARY, "80.0% computing, 0% exposed communication, 20.0% free"),
        ("op_summary_0_1_1.csv", OP_SUMMARY.replace("Task Start Time", "Start"), "no device time"),
        ("task_time_20260601.csv", TASK_TIME, "75.0% computing, 20.0% exposed communication, 5.0% free"),
    ],
    ids=["op_summary of CANN up to 6", "no column of starts", "task_time"],
)
def test_tables_of_msprof(tmp_path: Path, file: str, text: str, shares: str) -> None:
    folder = tmp_path / "PROF_1_2_X" / "mindstudio_profiler_output"
    folder.mkdir(parents=True)
    (folder / file).write_text(text)
    told = report(profile_at(tmp_path))
    assert shares in " ".join(told.verdict or ["no device time"])
    assert {row.type for row in told.operators} <= {"Conv2D"}
