import numpy as np
import pytest

from npu_tui.trace.text import cell_count, drawable
from npu_tui.view.bars import NameLadders, cut_middle, ladder


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
        ("矩阵", "矩阵"),
        ("e\u0301", "é"),
        ("x\u0301\u20dd", "x"),
        ("\u1112\u1161\u11ab", "한"),
        ("\u202eevil\u2066", "?evil?"),
        ("a\u200bb\ufeff", "a?b?"),
        ("é→µ", "é→µ"),
        ("\x9b31m", "?31m"),
        ("\U0001f600", "\U0001f600"),
        ("\U0001f468\u200d\U0001f469", "\U0001f468\U0001f469"),
        ("\U0001f44d\U0001f3fd", "\U0001f44d?"),
        ("\U0001f1e8\U0001f1f3", "??"),
        ("⚠\ufe0f", "⚠"),
        ("אב", "??"),
    ],
)
def test_every_character_that_is_drawn_has_a_width(text: str, drawn: str) -> None:
    assert drawable(text) == drawn


@pytest.mark.parametrize(
    ("text", "cells"), [("ab", 2), ("矩阵", 4), ("a矩", 3), ("é", 1), ("ｗ", 2), ("\U0001f680", 2), ("", 0)]
)
def test_cells_of_a_text(text: str, cells: int) -> None:
    assert cell_count(text) == cells


def test_the_longest_label_that_fits_is_taken() -> None:
    labels = NameLadders()
    assert labels.add(["aten::linear", "x", ""]) == 0
    names, room = np.array([0, 0, 0, 1, 2]), np.array([12, 11, 5, 3, 3])
    offset, length, cut = labels.fit(names, room)
    found = ["".join(map(chr, labels.text[at : at + size])) for at, size in zip(offset, length, strict=True)]
    assert found == ["aten::linear", "linear", "linea", "x", ""]
    assert cut.tolist() == [False, False, True, False, False]


def test_many_long_names() -> None:
    labels = NameLadders()
    assert labels.add([f"{k}" * 900 for k in range(40)]) == 0
    _, length, cut = labels.fit(np.arange(40), np.full(40, 1000))
    assert length.tolist() == [400] * 40
    assert not cut.any()


@pytest.mark.parametrize(
    ("room", "cut"),
    [(8, "矩阵乘法"), (7, "矩…乘法"), (6, "…乘法"), (5, "矩…法"), (4, "…法"), (3, "矩…"), (2, "…"), (0, "")],
)
def test_wide_names_are_cut_between_characters(room: int, cut: str) -> None:
    assert cut_middle("矩阵乘法", room) == cut


def test_wide_labels_take_two_cells_a_character() -> None:
    labels = NameLadders()
    assert labels.add(["矩阵"]) == 0
    assert not labels.wide
    offset, length, cut = labels.fit(np.array([0, 0]), np.array([4, 3]))
    assert labels.text[offset[0] : offset[0] + length[0]].tolist() == [ord("矩"), 0, ord("阵"), 0]
    assert (length.tolist(), cut.tolist(), labels.wide) == ([4, 3], [False, True], True)


@pytest.mark.parametrize(("room", "cut"), [(14, "Thread 3178231"), (9, "Thr…78231"), (3, "T…1"), (1, "…"), (0, "")])
def test_names_are_cut_in_the_middle(room: int, cut: str) -> None:
    assert cut_middle("Thread 3178231", room) == cut


def test_names_of_several_lists_stand_in_one_table() -> None:
    labels, names = NameLadders(), ["aten::add", "x"]
    first, second = labels.add(names), labels.add(["one\ntwo"], str.splitlines)
    assert (first, second, labels.add(names)) == (0, 2, 0)
    offset, length, _ = labels.fit(np.array([second, 0, 1]), np.array([9, 5, 5]))
    found = ["".join(map(chr, labels.text[at : at + size])) for at, size in zip(offset, length, strict=True)]
    assert found == ["one", "add", "x"]
