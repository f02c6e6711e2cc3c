"""Groups of kernels that became others: the word for it, and what it costs, to the nanosecond."""

import numpy as np
import pytest

from npu_tui.compare.kernels import ComparedKernels, Identity, group_changes

_STEPS = 4
_MM, _ADD = Identity("MatMulV2", "8,8", "BF16"), Identity("Add", "8,8", "BF16")


def kernels(*rows, steps=_STEPS):
    """``rows`` are (identity, duration, operation) of one step; every step has the same."""
    identities = list(dict.fromkeys(row[0] for row in rows))
    every = [(row, step) for step in range(steps) for row in rows]
    return ComparedKernels(
        np.arange(len(every)),
        np.array([row[1] for row, _ in every], np.int64),
        identities,
        np.array([identities.index(row[0]) for row, _ in every], np.int64),
        np.array([step for _, step in every], np.int64),
        np.array([row[2] for row, _ in every], np.int64),
        steps,
    )


def one(found, change):
    rows = [row for row in found if row.change == change]
    assert len(rows) == 1
    return rows[0]


def test_another_data_type_is_one_group_that_changed():
    wide = _MM._replace(dtypes="FLOAT")
    base, new = kernels((_MM, 118_000, 1), (_ADD, 5_000, 2)), kernels((wide, 265_000, 11), (_ADD, 5_000, 12))
    found = group_changes(base, new, [(1, 11), (2, 12)])
    row = one(found, "changed")
    assert (row.was, row.identity, row.rung) == (_MM, wide, "operation")
    assert row.delta == row.by_duration == 147_000
    assert one(found, "same").identity == _ADD


def test_one_more_call_per_layer_is_priced_by_calls():
    layers = 12
    base = kernels(*[(_MM, 50_000, 1), (_ADD, 5_000, 2)] * layers)
    new = kernels(*[(_MM, 50_000, 1), (_ADD, 5_000, 2), (_ADD, 5_000, 3)] * layers)
    row = one(group_changes(base, new), "more")
    assert row.identity == _ADD
    assert (row.by_count, row.by_duration) == (layers * 5_000, 0)
    assert (row.base.count, row.new.count) == (layers, 2 * layers)


def test_a_fused_kernel_replaces_the_three_it_was_made_of():
    first, soft, second = Identity("BatchMatMul", "a"), Identity("SoftmaxV2", "a"), Identity("BatchMatMul", "b")
    fused = Identity("FlashAttentionScore", "a")
    found = group_changes(
        kernels((first, 40_000, 1), (soft, 30_000, 2), (second, 40_000, 3), (_ADD, 5_000, 4)),
        kernels((fused, 60_000, 11), (_ADD, 5_000, 14)),
        [(4, 14)],
        [((1, 2, 3), (11,))],
    )
    row = one(found, "replaced")
    assert row.parts == ("BatchMatMul", "SoftmaxV2")
    assert row.delta == 60_000 - 110_000
    assert {each.change for each in found} == {"replaced", "same"}


@pytest.mark.parametrize("factor", [1.3, 0.7])
def test_slower_calls_are_priced_by_duration(factor):
    found = group_changes(
        kernels(*[(_MM, 50_000 + k, 1) for k in range(9)]),
        kernels(*[(_MM, round((50_000 + k) * factor), 1) for k in range(9)]),
    )
    row = one(found, "slower" if factor > 1 else "faster")
    assert row.by_count == 0
    assert row.delta == pytest.approx(sum(round((50_000 + k) * factor) - 50_000 - k for k in range(9)), abs=1e-6)
    assert row.q <= 0.1


def test_both_ways_are_each_other_s_negative():
    base = kernels((_MM, 50_000, 1), (_ADD, 5_000, 2), (_ADD, 5_000, 3))
    new = kernels((_MM, 70_000, 1), (_ADD, 5_000, 2), (Identity("Cast"), 12_000, 4))
    there, back = group_changes(base, new), group_changes(new, base)
    words = {"new": "gone", "gone": "new", "slower": "faster", "faster": "slower", "more": "fewer", "fewer": "more"}
    assert {(row.identity, row.change, row.delta) for row in there} == {
        (row.identity, words.get(row.change, row.change), -row.delta) for row in back
    }
