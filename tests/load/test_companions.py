"""Tables and settings beside a trace, spelled in every way the profilers spell them."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import numpy as np
import pytest
from measured import profile_at

from npu_tui.analysis.device import device_slices
from npu_tui.load.companion_schema import JsonFile
from npu_tui.load.companions import Companions
from npu_tui.load.load import load

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"


def test_cells(tmp_path: Path) -> None:
    """Byte order mark, tabs, both line ends, quoted line breaks and missing cells."""
    (tmp_path / "t.csv").write_bytes(
        b"\xef\xbb\xbfDevice_id,Name ,Shapes,Start Time(us)\r\n"
        b'0,a,"""1,2;\r\n3""",1736405443881410.320\t\r\n'
        b"0,N/A,,\n"
        b"\n"
        b"1,b\n"
    )
    found = Companions(tmp_path)
    assert list(found.rows("t.csv", "Name", "Start Time(us)", "Type")) == [
        ("a", "1736405443881410.320", None),
        (None, None, None),
        ("b", None, None),
    ]
    assert list(found.rows("t.csv", "Shapes")) == [('"1,2;\r\n3"',), (None,), (None,)]


def test_what_is_missing(tmp_path: Path) -> None:
    found = Companions(tmp_path / "nowhere")
    assert list(found.rows("t.csv", "Name")) == []
    assert found.communication() == found.matrix() == JsonFile("missing")
    assert found.profiler_info == {}
    assert found.profiler_level is None


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ('{"config": {"experimental_config": {"_profiler_level": "Level2"}}}', 2),
        ('{"config": {"experimental_config": {"_profiler_level": "ProfilerLevel.Level0"}}}', 0),
        ('{"config": {"experimental_config": {"_profiler_level": "Level_none"}}}', None),
        ('{"config": {"experimental_config": [1]}}', None),
        ("[]", None),
        ("{", None),
    ],
)
def test_profiler_level(tmp_path: Path, text: str, level: int | None) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "profiler_info_3.json").write_text(text)
    assert Companions(tmp_path / "out").profiler_level == level


def test_cores_by_name_and_start(tmp_path: Path) -> None:
    """One nanosecond off is the same kernel; a packed trace has its tables as well."""
    shutil.copytree(FIXTURES / "healthy", tmp_path / "profile")
    output = tmp_path / "profile" / "ASCEND_PROFILER_OUTPUT"
    file = output / "trace_view.json"
    (output / "trace_view.json.gz").write_bytes(gzip.compress(file.read_bytes()))
    trace = load(file)
    (device,) = device_slices(trace)
    items = np.flatnonzero(device.compute)[:4]
    lines = ["Step Id,Name,Type,Accelerator Core,Start Time(us),Duration(us)"]
    for item, off, core in zip(items.tolist(), (0, 1, -1, 2), ("AI_CORE", "MIX_AIC", "N/A", "AI_CPU"), strict=True):
        start = trace.start_ns + int(trace.slices.start[item]) + off
        lines.append(f"20,{trace.name_of(item)},T,{core},{start // 1000}.{start % 1000:03d}\t,5")
    (output / "kernel_details.csv").write_text("\r\n".join(lines) + "\r\n")
    for path in (file, tmp_path / "profile", output / "trace_view.json.gz"):
        profile = profile_at(path)
        cores = profile.all_kernels.of_slices(items).core
        assert profile.profiler_level == 1
        assert [cores.at(k) for k in range(len(items))] == ["AI_CORE", "MIX_AIC", None, None]


def test_args_of_many_events_are_those_of_each(tmp_path: Path) -> None:
    trace = load(FIXTURES / "communication_bound", chunk_size=4096)
    lanes = [lane for lane in trace.lanes if lane.name.startswith("Plane ")]
    items = np.concatenate([np.arange(lane.first, lane.last) for lane in lanes])
    target, size, link_type = trace.args.many(trace.slices.event[items], ("dst rank", "size(Byte)", "link type"))
    for k, item in enumerate(items.tolist()):
        args = trace.args.one(int(trace.slices.event[item]))
        assert (target[k], size[k], link_type[k]) == (args["dst rank"], args["size(Byte)"], args["link type"])


def test_no_args_for_no_events() -> None:
    trace = load(FIXTURES / "healthy")
    assert trace.args.many(np.zeros(0, np.int64), ("a", "b")) == [[], []]
