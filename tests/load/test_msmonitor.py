"""Records of MSPTI as msMonitor writes them, a line each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from measured import profile_of

from npu_tui.jobs.opening import open_job
from npu_tui.load.errors import InputError
from npu_tui.load.find import find_source
from npu_tui.load.load import load
from npu_tui.output.report import report

BEGUN = 1_761_000_000_000_000_000
US = 1_000


def call(number: int, start: int, kind: str = "API") -> dict[str, Any]:
    times = {"startNs": BEGUN + start, "endNs": BEGUN + start + 20 * US}
    return {"kind": kind, "name": "aclnnMatmul", **times, "processId": 4242, "threadId": 4250, "correlationId": number}


def kernel(number: int, start: int, length: int = 90 * US) -> dict[str, Any]:
    times = {"startNs": BEGUN + start, "endNs": BEGUN + start + length}
    place = {"deviceId": 3, "streamId": 7, "type": "KERNEL_AICORE"}
    return {"kind": "Kernel", "name": f"MatMulV2_{number}", **times, **place, "correlationId": number}


def collective(number: int, start: int) -> dict[str, Any]:
    times = {"startNs": BEGUN + start, "endNs": BEGUN + start + 40 * US}
    about = {"dataType": "FP16", "count": 1 << 20, "commName": "10.0.0.1%eth0_60000_0", "algType": "MESH-RING"}
    place = {"deviceId": 3, "streamId": 9}
    return {"kind": "Communication", "name": "hcom_allReduce_", **times, **place, **about, "correlationId": number}


def mark(number: int, start: int, length: int) -> list[dict[str, Any]]:
    about = {"kind": "Marker", "name": f"step {number}", "domain": "default", "id": number}
    times = {"startNs": BEGUN + start, "endNs": BEGUN + start + length}
    host = {"sourceKind": "Host", "processId": 4242, "threadId": 4250}
    return [{**about, **times, **host}, {**about, **times, "sourceKind": "Device", "deviceId": 3, "streamId": 7}]


def recording() -> list[dict[str, Any]]:
    """Three steps of 1 ms: five calls and kernels, and a collective beside the last two kernels."""
    lines = []
    for step in range(3):
        at = step * 1_000 * US
        lines += mark(step, at, 950 * US)
        for k in range(5):
            lines += [call(10 * step + k + 1, at + 50 * k * US), kernel(10 * step + k + 1, at + 100 * (k + 1) * US)]
        lines.append(collective(100 + step, at + 480 * US))
    return [*lines, {"kind": "rank_device_map", "rank": 5, "device": [3]}]


def write(folder: Path, lines: list[dict[str, Any]], files: int = 2, rank: int = 5) -> Path:
    folder.mkdir(exist_ok=True)
    size = -(-len(lines) // files)
    for number in range(files):
        own = "".join(json.dumps(line) + "\n" for line in lines[number * size : (number + 1) * size])
        (folder / f"msmonitor_4242_2025102007364{number}123_{rank}.jsonl").write_text(own)
    return folder


def test_files_that_follow_one_another_are_one_recording(tmp_path: Path) -> None:
    source = find_source(write(tmp_path / "log", recording(), files=3))
    assert (source.kind, len(source.files), source.rank) == ("msmonitor", 3, 5)
    assert find_source(source.files[1]).files == source.files


@pytest.mark.parametrize("files", [1, 4])
def test_what_the_lines_say_is_there(tmp_path: Path, files: int) -> None:
    trace = load(write(tmp_path / "log", recording(), files))
    names = np.array(trace.names)[trace.slices.name]
    assert trace.rank == 5
    assert sorted(name for name in names if name.startswith("MatMulV2_")) == sorted(
        f"MatMulV2_{10 * step + k + 1}" for step in range(3) for k in range(5)
    )
    kernels = np.flatnonzero([name.startswith("MatMulV2_") for name in names])
    assert (trace.slices.end[kernels] - trace.slices.start[kernels] == 90 * US).all()
    assert np.count_nonzero(names == "Node@aclnnMatmul") == 15
    assert np.count_nonzero([name.startswith("hcom_allReduce__") for name in names]) == 3
    assert {f"step {step}" for step in range(3)} <= set(names)
    links = trace.links
    launches = links.category == trace.link_categories.index("HostToDevice")
    pairs = launches & (links.source_slice >= 0) & np.isin(links.target_slice, kernels)
    assert np.count_nonzero(pairs) == 15
    waited = trace.slices.start[links.target_slice[pairs]] - trace.slices.start[links.source_slice[pairs]]
    assert sorted(set(waited.tolist())) == [(100 + 50 * k) * US for k in range(5)]


def test_a_report_tells_the_device_time(tmp_path: Path) -> None:
    told = report(profile_of(load(write(tmp_path / "log", recording()))))
    part = told.overlap
    assert part.computing_us == pytest.approx(15 * 90)
    assert part.communication_not_overlapped_us == pytest.approx(3 * 10)  # what lies between two kernels


def test_lines_that_are_no_records_are_counted(tmp_path: Path) -> None:
    folder = write(tmp_path / "log", recording(), files=1)
    (file,) = folder.iterdir()
    torn = json.dumps(kernel(99, 5_000 * US))[:-9]
    odd = ['{"kind": "Kernel", "startNs": "soon"}', '{"kind": "Weather"}', "", "[1]", torn]
    file.write_text(file.read_text() + "\n".join(odd))
    trace = load(folder)
    assert [(said.code, said.args) for said in trace.health.warnings] == [("odd.msmonitor_lines", {"count": 4})]
    assert sum(name.startswith("MatMulV2_") for name in np.array(trace.names)[trace.slices.name]) == 15


def test_nothing_but_odd_lines_is_refused_in_a_line(tmp_path: Path) -> None:
    folder = write(tmp_path / "log", [{"kind": "parallel_group_info", "value": "{}"}], files=1)
    with pytest.raises(InputError) as error:
        load(folder)
    assert error.value.message.code == "input.msmonitor_nothing"


def test_ranks_in_one_folder_are_a_job(tmp_path: Path) -> None:
    for rank in (4, 5):
        write(tmp_path / "log", [line for line in recording() if "rank" not in line], rank=rank)
    assert [rank.rank for rank in open_job(tmp_path / "log").ranks] == [4, 5]
