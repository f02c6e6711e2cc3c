"""CANN calls against api_statistic.csv, operations against operator_details.csv."""

from __future__ import annotations

import csv
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

import pytest
from samples import rows_of

from npu_tui.analysis.calls import apis, host_operators
from npu_tui.analysis.device import EVERYTHING, Window

if TYPE_CHECKING:
    from conftest import Sample


def test_api_statistic(level1: Sample) -> None:
    """Every row by level and name: count, times and variance."""
    found = {(row.level, row.name): row for row in apis(level1.trace, EVERYTHING)}
    rows = {(row["Level"], row["API Name"]): row for row in rows_of(level1.file.with_name("api_statistic.csv"))}
    assert len(rows) == 57
    assert found.keys() == rows.keys()
    for key, own in found.items():
        row = rows[key]
        assert own.count == int(row["Count"])
        assert own.total / 1000 == pytest.approx(float(row["Time(us)"]), abs=0.001)
        assert own.total / own.count / 1000 == pytest.approx(float(row["Avg(us)"]), abs=0.001)
        assert own.shortest / 1000 == pytest.approx(float(row["Min(us)"]), abs=0.001)
        assert own.longest / 1000 == pytest.approx(float(row["Max(us)"]), abs=0.001)
        assert own.variance == pytest.approx(float(row["Variance"]), abs=0.001)


def test_only_calls_of_the_window(level1: Sample) -> None:
    middle = level1.trace.end // 2
    parts = [apis(level1.trace, window) for window in (Window(0, middle), Window(middle, level1.trace.end + 1))]
    whole = sum(row.count for row in apis(level1.trace, EVERYTHING))
    assert sum(row.count for part in parts for row in part) == whole
    assert all(parts)


def test_operator_details(profile: Sample) -> None:
    """Every operation: durations of all, times of their own and of their kernels where names tell them apart."""
    trace = profile.trace
    found = host_operators(trace)
    with profile.file.with_name("operator_details.csv").open(newline="", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    assert len(rows) == len(found.item) == 859
    expected: dict[tuple[str, int], list[tuple[float, ...]]] = defaultdict(list)
    for row in rows:
        columns = ("Host Self Duration(us)", "Device Self Duration(us)", "Device Total Duration(us)")
        key = row["Name"], round(float(row["Host Total Duration(us)"]) * 1000)
        expected[key].append(tuple(float(row[column]) for column in columns))
    own: dict[tuple[str, int], list[tuple[float, ...]]] = defaultdict(list)
    for k, item in enumerate(found.item.tolist()):
        times = (found.host_self[k], found.device_self[k], found.device_total[k])
        own[trace.name_of(item), int(found.host_total[k])].append(tuple(time / 1000 for time in times))
    assert Counter({key: len(times) for key, times in own.items()}) == Counter(
        {key: len(times) for key, times in expected.items()}
    )
    alone = [key for key, times in expected.items() if len(times) == 1]
    assert len(alone) > 800
    for key in alone:
        assert own[key][0] == pytest.approx(expected[key][0], abs=0.02), key
