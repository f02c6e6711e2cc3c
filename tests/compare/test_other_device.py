"""A program on a GPU and on an NPU: what an operation of PyTorch costs on each, whatever it calls inside."""

from __future__ import annotations

from pathlib import Path

import pytest
from by_hand import ByHand
from measured import profile_at
from written import text_comparison

from npu_tui.compare.comparison import ProfileComparison
from npu_tui.compare.measured import MeasuredSide
from npu_tui.output.compare_report import compared

_INSIDE = {
    True: {"aten::linear": ("aten::addmm",), "aten::softmax": ("aten::_softmax",), "aten::addmm": ()},
    False: {"aten::linear": ("aten::matmul", "aten::mm"), "aten::softmax": ("npu::npu_softmax",), "aten::addmm": ()},
}
_KERNELS = {
    True: {"aten::linear": (("ampere_gemm", 30),), "aten::softmax": (("softmax_forward", 10),),
           "aten::addmm": (("ampere_gemm", 20),)},
    False: {"aten::linear": (("aclnnMm_MatMulV2_MatMulV2", 80), ("aclnnAdd_Add_Add", 10)),
            "aten::softmax": (("aclnnSoftmax_SoftmaxV2_SoftmaxV2", 40),),
            "aten::addmm": (("aclnnAddmm_MatMulV2_MatMulV2", 50),)},
}  # fmt: skip
"""What the operations of each device call, and the kernels that these launch, with their time in us."""


def _from_operation(trace: ByHand, called: float, start: float) -> None:
    """What torch_npu tells of a kernel: the operation that was called at ``called``."""
    link = {"cat": "async_npu", "name": "torch_to_npu", "id": str(len(trace.events)), "bp": "e"}
    for phase, (pid, tid), time in (("s", (4001, 4001), called), ("f", (3, 2), start)):
        ns = trace.began + round(time * 1000)
        moment = f"{ns // 1000}.{ns % 1000:03d}"
        trace.events.append(link | {"ph": phase, "pid": pid, "tid": tid, "ts": moment})


def _side(gpu: bool, folder: Path, alone: bool) -> MeasuredSide:
    """Four steps; ``alone``: with an operation that only this side has."""
    trace = ByHand(gpu)
    for step in range(4):
        at = 10_000 * step + 100
        trace.step(step, at, 5_000)
        names = ["aten::linear", "aten::softmax", "aten::addmm", *(["vendor::rope"] if alone else [])]
        for k, name in enumerate(names):
            begin = at + 100 + 1000 * k
            trace.host(name, begin, 500)
            for depth, inner in enumerate(_INSIDE[gpu].get(name, ()), 1):
                trace.host(inner, begin + depth, 500 - 2 * depth)
            for place, (kernel, length) in enumerate(_KERNELS[gpu].get(name, (("rope_kernel", 100),))):
                trace.launch(kernel, begin + 100 + 100 * place, begin + 120 + 100 * place, length)
                if not gpu:
                    _from_operation(trace, begin + len(_INSIDE[gpu].get(name, ())), begin + 120 + 100 * place)
    return MeasuredSide(profile_at(trace.write(folder)))


def test_an_operation_is_one_whatever_it_calls_on_its_device(tmp_path: Path) -> None:
    found = ProfileComparison(_side(True, tmp_path / "gpu", False), _side(False, tmp_path / "npu", False))
    assert found.by_operation
    groups = {row.identity.type: row for row in found.groups}
    assert {name: (row.base.total, row.new.total) for name, row in groups.items()} == {
        "aten::linear": (30_000, 90_000), "aten::softmax": (10_000, 40_000), "aten::addmm": (20_000, 50_000),
    }  # fmt: skip
    assert found.time_matched == (1, 1)


@pytest.mark.parametrize("turned", [False, True])
def test_what_one_side_has_alone_is_told_as_time(tmp_path: Path, turned: bool) -> None:
    sides = [_side(True, tmp_path / "gpu", False), _side(False, tmp_path / "npu", True)]
    found = ProfileComparison(*(sides[::-1] if turned else sides))
    shares = [1, pytest.approx(180 / 280)]
    assert list(found.time_matched or ()) == (shares[::-1] if turned else shares)
    report = compared(found)
    assert [row.type for row in report.groups if row.change in ("new", "gone")] == ["rope_kernel"]
    text = text_comparison(report)
    told = ["100%", "64.3%"]
    told = told[::-1] if turned else told
    assert f"{told[0]} of the base and {told[1]} of the new one have a counterpart" in text
    (line,) = [row.split() for row in text.splitlines() if row.rstrip().endswith("aten::linear")]
    totals = ["30.00", "90.00"]
    totals = totals[::-1] if turned else totals
    assert [line[2], line[5]] == totals
