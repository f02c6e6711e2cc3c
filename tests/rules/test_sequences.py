"""Runs of names: optional members, repeated ones, what may stand between, and that nothing counts twice."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pytest

from npu_tui.rules import sequences
from npu_tui.rules.sequences import ATEN, BETWEEN_ATEN, BETWEEN_KERNELS, KERNEL, FusedSequence
from npu_tui.strings import speaking
from npu_tui.strings import words as in_words
from npu_tui.trace.message import Message


class Match(NamedTuple):
    """Where ``run`` stands: the members [``first``, ``last``)."""

    run: FusedSequence
    first: int
    last: int


def matches(words: Sequence[str], runs: Sequence[FusedSequence], between: frozenset[str]) -> list[Match]:
    names = ["of no member", *sorted(words)]  # a name may stand there twice
    code = np.array([names.index(word) + k % words.count(word) for k, word in enumerate(words)], np.int64)
    found = sequences.matches(names, code, runs, between)
    columns = (found.run.tolist(), found.first.tolist(), found.last.tolist())
    return [Match(found.runs[run], first, last) for run, first, last in zip(*columns, strict=True)]


def found(words: str, runs: tuple[FusedSequence, ...] = KERNEL, between: frozenset[str] = BETWEEN_KERNELS) -> list[str]:
    return [in_words(match.run.api) for match in matches(words.split(), runs, between)]


def spans(words: str, members: str) -> list[tuple[int, int]]:
    run = FusedSequence(members, "x")
    return [(match.first, match.last) for match in matches(words.split(), (run,), BETWEEN_KERNELS)]


def test_members_in_order() -> None:
    assert spans("Add Mul Relu", "Add Mul Relu") == [(0, 3)]
    assert spans("Mul Add Relu", "Add Mul Relu") == []
    assert spans("Add Sub Mul Relu", "Add Mul Relu") == []
    assert spans("Add Mul Relu Add Mul Relu", "Add Mul Relu") == [(0, 3), (3, 6)]


def test_either_and_optional_and_repeated() -> None:
    assert spans("Add Relu Add Gelu", "Add Relu|Gelu") == [(0, 2), (2, 4)]
    assert spans("Add Relu Add Mul Relu", "Add [Mul] Relu") == [(0, 2), (2, 5)]
    assert spans("Neg Add Neg Mul Mul Add Neg Mul Mul Mul Add", "Neg Mul*2 Add") == [(0, 2), (2, 6)]
    assert spans("Pow Rsqrt Rsqrt", "[Pow] Rsqrt") == [(0, 2), (2, 3)]


def test_so_often_or_more() -> None:
    assert spans("Mul Add Relu Mul Mul", "Mul|Add*3+") == []
    assert spans("Mul Add Cast Mul Relu Mul Add Mul Mul Add", "Mul|Add*3+ [Relu]") == [(0, 5), (5, 10)]


def test_one_conversion_may_stand_between() -> None:
    assert spans("MatMul Cast Add TransData Relu", "MatMul Add Relu") == [(0, 5)]
    assert spans("MatMul Cast Cast Add", "MatMul Add") == []
    assert spans("Cast MatMul Add Cast", "MatMul Add") == [(1, 3)]
    assert spans("Pow Cast Rsqrt", "[Pow] Rsqrt") == [(0, 3)]


def test_a_name_is_whole() -> None:
    assert spans("MatMulV2 Add", "MatMul Add") == []
    assert spans("AddMatMul Add", "MatMul Add") == []


def test_the_longer_run_counts() -> None:
    longer, shorter = FusedSequence("MatMul Add Relu", "long", "t"), FusedSequence("MatMul Add", "short", "t")
    assert [match.run.api for match in matches(["MatMul", "Add", "Relu"], (shorter, longer), frozenset())] == ["long"]


@pytest.mark.parametrize(
    ("words", "api"),
    [
        ("MatMulV2 TransData Add Relu", "linear"),
        ("BatchMatMulV2 Mul Add SoftmaxV2 BatchMatMul", "npu_fusion_attention"),
        ("Cast Square ReduceMeanD Add Rsqrt Mul Cast", "npu_rms_norm"),
        ("BatchMatMulV3 RealDiv Add SoftmaxV2 BatchMatMulV3", "npu_fusion_attention"),
        ("BatchMatMulV3 SoftmaxV2", "npu_fusion_attention"),
        ("RealDiv MaskedFill SoftmaxV2", "npu_scaled_masked_softmax"),
        ("Conv2DV2 BNTrainingReduce BNTrainingUpdate Relu", "folded"),
        ("Conv2D BNInfer", "folded"),
        ("MatMulV2 Transpose Add", "moved out"),
        ("GatherElement", "index_select"),
        ("SelectV2", "mask"),
        ("Mul Slice Neg Slice ConcatD Cast Mul Add", "npu_rotary_mul"),
        ("Mul Neg ConcatD Mul Add", "npu_rotary_mul"),
        ("Slice Slice Swish Mul", "npu_swiglu"),
        ("StridedSlice StridedSlice Sigmoid Mul Mul", "npu_swiglu"),
        ("MatMulV3 Swish Mul MatMulV3", "one projection"),
        ("OneHot ReduceSum", "scatter_"),
        ("Pows Muls Add Muls Tanh Adds", "one kernel"),
        ("Erf Sign Floor Muls Adds Mul", "one kernel"),
    ],
)
def test_kernels(words: str, api: str) -> None:
    (only,) = found(words)
    assert api in only


@pytest.mark.parametrize(
    ("words", "api"),
    [
        ("permute contiguous view", "npu_confusion_transpose"),
        ("matmul mul add softmax dropout matmul", "npu_fusion_attention"),
        ("pow mean add rsqrt mul to type_as", "npu_rms_norm"),
        ("chunk silu mul", "npu_swiglu"),
        ("chunk contiguous contiguous sigmoid mul mul", "npu_swiglu"),
        ("add layer_norm", "npu_add_layer_norm"),
        ("add reciprocal mul", "clip_grad_norm"),
    ],
)
def test_operations(words: str, api: str) -> None:
    assert any(api in each for each in found(words, ATEN, BETWEEN_ATEN))


@pytest.mark.parametrize(
    ("words", "api"),
    [
        ("div add softmax", "npu_scaled_masked_softmax"),
        ("conv2d batch_norm", "folded"),
        ("relu", "in place"),
        ("where", "mask"),
        ("gather", "index_select"),
    ],
)
def test_operations_that_need_a_look(words: str, api: str) -> None:
    (only,) = matches(words.split(), ATEN, BETWEEN_ATEN)
    assert api in in_words(only.run.api)
    assert not only.run.exact


@pytest.mark.parametrize("words", ["softmax add", "softmax masked_fill", "relu_", "sigmoid_"])
def test_operations_that_nothing_replaces(words: str) -> None:
    assert not found(words, ATEN, BETWEEN_ATEN)


def test_no_masked_softmax_before_the_mask() -> None:
    assert not found("SoftmaxV2 Add")
    assert not found("SoftmaxV2 MaskedFill")


def test_of_runs_that_share_members_the_longest_counts_then_the_earliest() -> None:
    pair, three = FusedSequence("A|B|C B|C|D", "pair"), FusedSequence("B C D", "three")
    found = [(each.run.api, each.first) for each in matches(["A", "B", "C", "D", "A", "B"], (pair, three), frozenset())]
    assert found == [("three", 1), ("pair", 4)]
    triple = FusedSequence("C A B", "C A B")
    found = [
        (each.run.api, each.first)
        for each in matches(["A", "B", "C", "A", "B"], (triple, FusedSequence("A B C", "A B C", "x")), frozenset())
    ]
    assert found == [("A B C", 0)]


def test_nothing_is_nothing() -> None:
    assert matches([], KERNEL, BETWEEN_KERNELS) == []
    assert found("Conv2D Dropout Conv2D") == []


def test_every_row_can_be_read() -> None:
    for run in (*ATEN, *KERNEL):
        members = [member.strip("[]").split("*") for member in run.members.split()]
        words = [name.split("|")[0] for name, *times in members for _ in range(int((*times, "1")[0].strip("+")))]
        assert any(match.run.api == run.api for match in matches(words, (run,), frozenset())), run


def test_what_replaces_a_run_is_said_in_the_language_of_the_reader() -> None:
    said = [run.api for run in (*ATEN, *KERNEL) if isinstance(run.api, Message)]
    assert said
    with speaking("zh"):
        chinese = [in_words(api) for api in said]
    assert all(re.search(r"[\u4e00-\u9fff]|mindspeed|index_select", text) for text in chinese)
    assert not any(" or " in text or " and " in text for text in chinese)
    assert not [
        run.api for run in (*ATEN, *KERNEL) if isinstance(run.api, str) and re.search(r"\b(?:or|of|in|by)\b", run.api)
    ]
