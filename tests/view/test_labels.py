import numpy as np
import pytest

from npu_tui.trace.text import one_cell
from npu_tui.view.labels import Labels, cut_middle, ladder


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        (
            "torch/nn/modules/module.py(1520): _call_impl",
            ["torch/nn/modules/module.py(1520): _call_impl", "_call_impl module.py:1520", "_call_impl"],
        ),
        ("aten::linear", ["aten::linear", "linear"]),
        ("AscendCL@aclrtX", ["AscendCL@aclrtX", "aclrtX"]),
        ("AscendCL@hcom_allReduce_", ["AscendCL@hcom_allReduce_", "hcom_allReduce_", "allReduce"]),
        ("aclnnMm_MatMulCommon_MatMulV2", ["aclnnMm_MatMulCommon_MatMulV2", "MatMulV2"]),
        ("hcom_allReduce__271_0_1", ["hcom_allReduce__271_0_1", "allReduce"]),
        ("nn.Module: Linear_3", ["nn.Module: Linear_3", "Linear_3", "Linear"]),
        ("ProfilerStep#50", ["ProfilerStep#50", "#50"]),
        (
            "<built-in method run_backward of torch._C._EngineBase object at 0xfffd>",
            ["<built-in method run_backward of torch._C._EngineBase object at 0xfffd>", "run_backward"],
        ),
        (
            "autograd::engine::evaluate_function: AddmmBackward0",
            [
                "autograd::engine::evaluate_function: AddmmBackward0",
                "evaluate_function: AddmmBackward0",
                "AddmmBackward0",
            ],
        ),
        ("MemSet", ["MemSet"]),
        ("", [""]),
    ],
)
def test_ladders(name: str, steps: list[str]) -> None:
    assert ladder(name) == steps


@pytest.mark.parametrize(
    ("text", "drawn"),
    [
        ("plain", "plain"),
        ("a\x1b[0m\x07", "a?[0m?"),
        ("tab\there\r\n", "tab?here??"),
        ("矩阵", "??"),
        ("e\u0301", "e?"),
        ("\u202eevil\u2066", "?evil?"),
        ("a\u200bb\ufeff", "a?b?"),
        ("é→µ", "é→µ"),
        ("\x9b31m", "?31m"),
        ("\U0001f600", "?"),
        ("אב", "??"),
    ],
)
def test_only_characters_of_one_cell_are_drawn(text: str, drawn: str) -> None:
    assert one_cell(text) == drawn


def test_the_longest_label_that_fits_is_taken() -> None:
    labels = Labels(["aten::linear", "x", ""])
    names, room = np.array([0, 0, 0, 1, 2]), np.array([12, 11, 5, 3, 3])
    offset, length, cut = labels.fit(names, room)
    found = ["".join(map(chr, labels.text[at : at + size])) for at, size in zip(offset, length, strict=True)]
    assert found == ["aten::linear", "linear", "linea", "x", ""]
    assert cut.tolist() == [False, False, True, False, False]


def test_many_long_names() -> None:
    labels = Labels([f"{k}" * 900 for k in range(40)])
    _, length, cut = labels.fit(np.arange(40), np.full(40, 1000))
    assert length.tolist() == [400] * 40
    assert not cut.any()


@pytest.mark.parametrize(("room", "cut"), [(14, "Thread 3178231"), (9, "Thr…78231"), (3, "T…1"), (1, "…"), (0, "")])
def test_names_are_cut_in_the_middle(room: int, cut: str) -> None:
    assert cut_middle("Thread 3178231", room) == cut
