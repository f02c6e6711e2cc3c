"""Profiles without a trace that can be read: what the tables tell of the device's time."""

from __future__ import annotations

from pathlib import Path

import pytest
from measured import profile_at

from npu_tui.cli.main import main
from npu_tui.load.errors import InputError
from npu_tui.output.report import report
from npu_tui.strings import words

_HEAD = "Device_id,Name,Type,Accelerator Core,Start Time(us),Duration(us),Wait Time(us)"
_ROWS = (
    "0,aclnnMatmul_MatMulV2_MatMulV2,MatMulV2,AI_CORE,1000.000,100.000,0",
    "0,aclnnAdd_Add_Add,Add,AI_VECTOR_CORE,1150.000,50.000,50.000",
    "0,hcom_broadcast__1_0_1,hcom_broadcast_,HCCL,1180.000,60.000,0",
    "0,aclnnAdd_Add_Add,Add,AI_VECTOR_CORE,1400.000,100.000,160.000",
)


def _tables(folder: Path) -> Path:
    tables = folder / "host_1_20250601120000000_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
    tables.mkdir(parents=True)
    (tables / "kernel_details.csv").write_text("\n".join((_HEAD, *_ROWS)) + "\n")
    return tables


def test_kernel_details_tell_the_time_of_the_device(tmp_path: Path) -> None:
    found = profile_at(_tables(tmp_path).parent)
    document = report(found)
    overlap = document.overlap
    assert (overlap.computing_us, overlap.communication_us) == (250.0, 60.0)
    assert (overlap.communication_not_overlapped_us, overlap.free_us, overlap.total_us) == (40.0, 210.0, 500.0)
    assert [(row.name, row.elapsed_us) for row in document.communication] == [("hcom_broadcast__1_0_1", 60.0)]
    assert document.verdict[0].startswith("The device is free for 42.0% of 500.0 µs, computes for 50.0%")
    assert "from the first start to the last end in kernel_details.csv" in document.verdict[0]


def test_the_report_says_that_there_is_no_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(_tables(tmp_path).parent)]) == 0
    about = capsys.readouterr().out.splitlines()[2]
    assert "no trace, rank unknown" in about
    assert "slices" not in about


@pytest.mark.parametrize(("content", "said"), [("", "the file is empty"), ("no trace", "expected a JSON array")])
def test_a_trace_that_cannot_be_read_leaves_its_tables(content: str, said: str, tmp_path: Path) -> None:
    tables = _tables(tmp_path)
    (tables / "trace_view.json").write_text(content)
    found = profile_at(tables.parent)
    assert found.tables.sums[1].computing == 250_000
    assert said in words(found.trace.health.warnings[0])
    assert said in report(found).verdict[1]
    (tables / "kernel_details.csv").unlink()
    with pytest.raises(InputError) as refused:
        profile_at(tables.parent)
    assert said in words(refused.value.message)


@pytest.mark.parametrize("place", [".", "PROF_000001_20250601/mindstudio_profiler_output"])
def test_op_summary_alone(place: str, tmp_path: Path) -> None:
    folder = tmp_path / place
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "op_summary_20250601120000.csv").write_text(
        "\n".join(
            ("Device_id,Op Name,OP Type,Task Type,Task Start Time(us),Task Duration(us),Task Wait Time(us)", *_ROWS)
        )
    )
    found = report(profile_at(tmp_path))
    assert (found.overlap.computing_us, found.overlap.communication_not_overlapped_us) == (250.0, 40.0)
    assert "op_summary_20250601120000.csv" in found.verdict[0]
