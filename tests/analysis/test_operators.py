"""Operators against op_statistic.csv, kernel_details.csv and the simulator."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pytest
from measured import profile_of
from samples import rows_of

from npu_tui.analysis.device import device_slices
from npu_tui.analysis.operators import collective_type, kernel_groups, kernel_types, operator_type

if TYPE_CHECKING:
    from conftest import Sample
    from samples import Simulated


@pytest.mark.parametrize(
    ("name", "operation", "expected"),
    [
        ("Conv2D1", "", "Conv2D"),
        ("trans_TransData_0", "", "TransData"),
        ("aclnnMm_MatMulCommon_MatMulV2", "", "MatMulV2"),
        ("MaxPoolWithArgmaxV12", "MaxPoolWithArgmaxV1", "MaxPoolWithArgmaxV1"),
        ("MaxPoolWithArgmaxV12", "", "MaxPoolWithArgmaxV1"),
        ("MatMulV2_7", "", "MatMulV2"),
        ("Relu_5c5e58e043224cccf51a06108010ae13_high_performance_210000000", "", "Relu"),
        ("ReduceSum7_MemSet", "ReduceSum", "MemSet"),
        ("Default/net/MatMul-op12", "", "MatMul"),
        ("triton_poi_fused_add_mul_0", "", "triton_poi_fused_add_mul_0"),
        ("_attn_fwd_kernel", "", "_attn_fwd_kernel"),
        ("main_kernel_1", "", "main_kernel_1"),
        ("my_RmsNorm_2", "", "my_RmsNorm_2"),
        ("123", "", "123"),
        ("", "", ""),
    ],
)
def test_type_of_a_name(name: str, operation: str, expected: str) -> None:
    assert operator_type(name, operation) == expected


def test_type_of_a_collective() -> None:
    assert collective_type("hcom_allReduce__586_0_1") == "hcom_allReduce_"


def test_op_statistic(level1: Sample) -> None:
    """Every (type, core) with its count, sum and extremes, and no other."""
    groups = kernel_groups(profile_of(level1.trace).kernel_table, "type")
    found = {(row.type, row.core): row for row in groups}
    rows = {(row["OP Type"], row["Core Type"]): row for row in rows_of(level1.file.with_name("op_statistic.csv"))}
    assert len(rows) == 33
    assert found.keys() == rows.keys()
    for key, own in found.items():
        assert own.count == int(rows[key]["Count"])
        assert own.total / 1000 == pytest.approx(float(rows[key]["Total Time(us)"]), abs=0.01)
        assert own.shortest / 1000 == pytest.approx(float(rows[key]["Min Time(us)"]), abs=0.002)
        assert own.longest / 1000 == pytest.approx(float(rows[key]["Max Time(us)"]), abs=0.002)
    total = sum(row.total for row in found.values())
    for key, own in found.items():
        assert 100 * own.total / total == pytest.approx(float(rows[key]["Ratio(%)"]), abs=0.001)


def test_types_of_kernel_details(profile: Sample) -> None:
    """Each of the 191 kernels and collectives with its type from the name alone; at Level0 the table has no types."""
    trace = profile.trace
    (device,) = device_slices(trace)
    items = np.flatnonzero(device.compute)
    names, code = kernel_types(trace, items)
    found = Counter(
        (trace.name_of(item), names[kind]) for item, kind in zip(items.tolist(), code.tolist(), strict=True)
    )
    found.update(
        (trace.name_of(item), collective_type(trace.name_of(item))) for item in np.flatnonzero(device.collective)
    )
    rows = Counter((row["Name"], row["Type"]) for row in rows_of(profile.file.with_name("kernel_details.csv")))
    assert rows.total() == found.total() == 191
    if {kind for _, kind in rows} == {"N/A"}:
        found = Counter((name, "N/A") for name, _ in found.elements())
    assert found == rows


def test_every_kernel_has_its_row(profile: Sample) -> None:
    """However the trace was opened, and with N/A standing for no core."""
    trace = profile.trace
    (device,) = device_slices(trace)
    items = np.flatnonzero(device.compute)
    expected = {
        (row["Name"], row["Start Time(us)"]): row["Accelerator Core"]
        for row in rows_of(profile.file.with_name("kernel_details.csv"))
    }
    cores = profile_of(trace).all_kernels.of_slices(items).core
    for k, item in enumerate(items.tolist()):
        core = cores.at(k)
        start = int(trace.slices.start[item]) + trace.start_ns
        keys = [(trace.name_of(item), f"{near // 1000}.{near % 1000:03d}") for near in (start, start - 1, start + 1)]
        row = next(expected[key] for key in keys if key in expected)
        assert (core or "N/A") == row


def test_operators_of_the_simulation(variation: Simulated) -> None:
    found = kernel_groups(profile_of(variation.trace).kernel_table, "type")
    found.sort(key=lambda row: (-row.total, row.type))
    rows = [{"type": row.type, "count": row.count, "total_ns": row.total} for row in found]
    assert rows == variation.truth["operators"]
    assert all(row.core is None for row in found)


def test_older_chips_write_memset_in_their_own_way():
    assert operator_type("memset-") == operator_type("MemSet_12") == "MemSet"
