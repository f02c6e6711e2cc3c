"""The table of modules: what the operations of each launched, and the FLOP of products and convolutions."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from npu_tui.analysis.device import Window
from npu_tui.load.load import opening_of
from npu_tui.profile.module_tables import MODULES
from npu_tui.profile.parts import Selection
from npu_tui.profile.profile import Profile
from npu_tui.query.frames import tables_of
from npu_tui.query.query import query


def _rows(profile: Profile) -> dict[str | None, dict[str, Any]]:
    names = [field.column.id for field in MODULES.json]
    sheet = MODULES.make(profile)
    rows = zip(*(sheet.values(name) for name in names), strict=True)
    return {row[0]: dict(zip(names, row, strict=True)) for row in rows}


def _opened(path: Path) -> Profile:
    opening = opening_of(path, cached=False)
    return Profile(opening.trace(), opening.source)


@pytest.fixture(scope="module")
def real() -> Profile:
    folder = os.environ.get("NPU_TUI_TRACES")
    if not folder:
        pytest.skip(reason="NPU_TUI_TRACES is not set: it names the folder of the real profiles")
    return _opened(Path(folder) / "text/level1/rank0_ascend_pt")


def test_a_real_model_has_the_times_and_flop_of_its_layers(real: Profile):
    """AlexNet in batches of 32: FLOP by the shapes of PyTorch, times by the links, each counted by another program."""
    rows = _rows(real)
    assert len(rows) == 27
    times = {name: (rows[name]["device_total"], rows[name]["backward"]) for name in rows if name is not None}
    assert times["Conv2d_0"] == (401_247, 468_688)
    assert times["Linear_0"] == (346_567, 373_668)
    assert times["MaxPool2d_2"] == (111_542, 176_443)
    assert times["AdaptiveAvgPool2d_0"] == (67_741, 61_701)
    outermost = [rows["DistributedDataParallel_0"], rows["CrossEntropyLoss_0"]]
    assert sum(row["device_total"] for row in outermost) == 2_373_758
    assert sum(row["backward"] for row in outermost) == 3_342_717
    assert sum(row["kernels"] for row in outermost) == 52 + 95
    assert sum(row["total"] for row in (*outermost, rows[None])) == 9_738_871
    forward = (4_497_715_200, 14_332_723_200, 7_176_978_432, 9_569_304_576, 6_379_536_384)
    assert rows["Conv2d_0"]["flops"] == 2 * forward[0]  # the first layer has no gradient of its input
    assert [rows[f"Conv2d_{k}"]["flops"] for k in range(1, 5)] == [3 * flop for flop in forward[1:]]
    assert sum(rows[f"Linear_{k}"]["flops"] for k in range(3)) == 8_839_495_680 + 2_415_919_104
    assert rows["AlexNet_0"]["flops"] == sum(forward) + 79_414_800_384 + 11_255_414_784
    assert rows["ReLU_0"]["flops"] == 0
    assert rows["AlexNet_0"]["mfu"] is None  # nothing names the chip


def _event(name: str, start: float, length: float, tid: int, **args: Any) -> dict[str, Any]:
    category = "cpu_op" if "::" in name else "python_function" if tid < 10 else "Ascend"
    return {"ph": "X", "name": name, "pid": 1 if tid < 10 else 2, "tid": tid, "ts": str(start), "dur": length,
            "cat": category, "args": args}  # fmt: skip


def _made(path: Path, repeated: int = 2) -> Path:
    """A model of two layers, of which the second is called twice a step; each call launches one kernel in each pass."""
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "Python"}},
        {"ph": "M", "name": "process_name", "pid": 2, "args": {"name": "Ascend Hardware"}},
        {"ph": "M", "name": "thread_name", "pid": 2, "tid": 10, "args": {"name": "Stream 10"}},
    ]
    at, link = 1000.0, 1

    def linked(kind: str, first: tuple[int, int, float], second: tuple[int, int, float]) -> None:
        nonlocal link
        for phase, (pid, tid, ts) in (("s", first), ("f", second)):
            flow = {"ph": phase, "id": link, "name": kind, "cat": kind, "pid": pid, "tid": tid, "ts": str(ts)}
            events.append(flow | ({"bp": "e"} if phase == "f" else {}))
        link += 1

    for _ in range(repeated):
        events.append(_event("nn.Module: Model_0", at, 100, 1))
        for place, name in enumerate(("Linear_0", "Linear_1", "Linear_1")):
            begun = at + 10 + 20 * place
            events.append(_event(f"nn.Module: {name}", begun, 15, 1))
            events.append(_event("aten::linear", begun + 2, 10, 1))
            kernel = {"Task Type": "AI_CORE", "Stream Id": 10}
            events.append(_event("MatMulV2", begun + 100, 7, 10, **kernel))
            linked("async_npu", (1, 1, begun + 2), (2, 10, begun + 100))
            events.append(_event("autograd::engine::evaluate_function: AddmmBackward0", begun + 300, 8, 2))
            linked("fwdbwd", (1, 1, begun + 2), (1, 2, begun + 300))
            events.append(_event("MatMulV2", begun + 400, 9, 10, **kernel))
            linked("async_npu", (1, 2, begun + 300), (2, 10, begun + 400))
        events.append(_event("aten::add_", at + 500, 5, 1))
        events.append(_event("Add", at + 600, 3, 10, **{"Task Type": "AI_VECTOR_CORE", "Stream Id": 10}))
        linked("async_npu", (1, 1, at + 500), (2, 10, at + 600))
        at += 1000
    path.write_text(json.dumps(events), encoding="utf-8")
    return path


def test_calls_of_a_module_add_up_below_the_modules_around_it(tmp_path: Path):
    profile = _opened(_made(tmp_path / "trace_view.json"))
    rows = _rows(profile)
    assert list(rows) == ["Model_0", "Linear_1", "Linear_0", None]
    told = {name: [row[key] for key in ("calls", "kernels", "device_self", "device_total", "backward", "flops")]
            for name, row in rows.items()}  # fmt: skip
    assert told == {
        "Model_0": [2, 12, 0, 42_000, 54_000, None],  # the shapes of its products are unknown
        "Linear_1": [4, 8, 64_000, 28_000, 36_000, None],
        "Linear_0": [2, 4, 32_000, 14_000, 18_000, None],
        None: [0, 2, 6_000, None, None, 0],
    }
    assert rows["Linear_1"]["path"] == "Model_0/Linear_1"
    assert rows[None]["total"] == 6_000
    second = profile.part(Selection(Window(1_000_000, 2_000_000)))
    assert _rows(second)["Linear_1"]["kernels"] == 4
    frame = query(tables_of(profile), "select name, total from modules where depth = 1 order by total desc")
    assert frame.rows() == [("Linear_1", 64_000), ("Linear_0", 32_000)]


def test_a_trace_without_modules_has_no_row(tmp_path: Path):
    path = _made(tmp_path / "trace_view.json", repeated=1)
    path.write_bytes(path.read_bytes().replace(b"nn.Module: ", b"layer "))
    assert MODULES.make(_opened(path)).rows == 0
