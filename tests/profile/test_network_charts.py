"""Curves of the network cards: one a port, in bytes a second, under the layer of its device."""

from __future__ import annotations

import json
from pathlib import Path

from measured import profile_at

from npu_tui.profile.scene import network_charts
from npu_tui.view.curves import StepCurve, curve_value

_HEAD = "Device_id,Timestamp(us),Bandwidth(MB/s),funcId\n"


def test_each_port_has_a_curve(tmp_path: Path) -> None:
    kernel = {"ph": "X", "pid": 1, "tid": 2, "name": "MatMul", "ts": "1000.000", "dur": 900}
    named = {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "Ascend Hardware"}}
    (tmp_path / "trace_view.json").write_text(json.dumps([named, kernel]))
    (tmp_path / "nic.csv").write_text(f"{_HEAD}0,1000.5,250,0\n0,1100.5,,0\n0,1200.5,1500,0\n")
    (tmp_path / "roce.csv").write_text(f"{_HEAD}0,1300,10,1\n0,1300,20,2\n")
    charts = network_charts(profile_at(tmp_path))
    assert [(chart.name, chart.layer) for chart in charts] == [("nic 0", 0), ("roce 1", 0), ("roce 2", 0)]
    function = charts[0].function()
    assert function.time.tolist() == [500, 200_500]
    assert function.value.tolist() == [250_000_000, 1_500_000_000]
    assert curve_value(StepCurve(function, "network"), 300_000) == "1.5GB/s"
