"""What collectives cost once all ranks are there: by type, group and size, against the fastest of their kind."""

from __future__ import annotations

from pathlib import Path

import pytest
from by_hand import ByHand
from measured import profile_at

from npu_tui.output.report import report
from npu_tui.output.report_document import report_document
from npu_tui.output.statement import written_document
from npu_tui.profile.collective_tables import COLLECTIVE_COSTS
from npu_tui.query.frames import tables_of
from npu_tui.query.query import query

_GROUPS, _PLANE = 4, 10
_SMALL, _LARGE = 1_000_000, 8_000_000
Call = tuple[float, float, int, float]
"""Start, wait for the other rank, bytes and the time they take, us."""


def _collectives(folder: Path, calls: list[Call]) -> Path:
    """Each waits for rank 1, moves its data in two halves and waits between them for the link, not for a rank."""
    trace = ByHand()
    trace.events.append({"ph": "M", "pid": _GROUPS, "tid": _PLANE, "name": "thread_name", "args": {"name": "Plane 0"}})
    for number, (start, wait, size, moves) in enumerate(calls):
        trace.launch("aclnnMatmul_MatMulV2_MatMulV2", start - 60, start - 40, 30)
        trace.group(f"hcom_allReduce__586_{number}_1", start, wait + moves + 6)
        task = {"src rank": 0, "dst rank": 1, "transport type": "SDMA", "link type": "HCCS"}
        for name, begin, length, args in (
            ("Notify_Wait", 1, wait, {}),
            ("Memcpy", wait + 2, moves / 2, {"size(Byte)": size // 2}),
            ("Notify_Wait", wait + moves / 2 + 3, 1.5, {}),
            ("Memcpy", wait + moves / 2 + 5, moves / 2, {"size(Byte)": size // 2}),
        ):
            trace.add(_GROUPS, _PLANE, name, start + begin, length, args=task | args)
    return trace.write(folder)


_CALLS: list[Call] = [
    (1000, 900, _SMALL, 20), (3000, 5, _SMALL, 20), (4000, 400, _SMALL, 80), (5000, 10, _LARGE, 160),
]  # fmt: skip


def test_waiting_is_left_out_and_the_fastest_is_the_measure(tmp_path: Path) -> None:
    profile = profile_at(_collectives(tmp_path, _CALLS))
    small, large = COLLECTIVE_COSTS.records(profile)
    assert (small.size_bytes, small.count, large.size_bytes, large.count) == (_SMALL, 3, _LARGE, 1)
    # Each takes 5 us more than its data: it begins 1 us before it waits, and is done 4 us of pauses later.
    assert (small.fastest_us, small.slowest_us, small.beyond_us) == (25, 85, 60)
    assert (small.without_wait_us, small.total_us) == (25 + 25 + 85, 906 + 20 + 5 + 26 + 400 + 86)
    assert (large.fastest_us, large.beyond_us, large.bandwidth_gb_s) == (165, 0, pytest.approx(_LARGE / 165_000, 1e-5))
    rows = query(tables_of(profile), "select without_wait from collectives order by start").rows()
    assert [cost for (cost,) in rows] == [25_000, 25_000, 85_000, 165_000]
    page = written_document(report_document(report(profile)), "text")
    assert "Collectives by type, group and size, without waiting" in page


def test_without_tasks_the_cost_is_unknown(tmp_path: Path) -> None:
    trace = ByHand()
    for number in range(3):
        trace.launch("aclnnMatmul_MatMulV2_MatMulV2", 1000 * number + 10, 1000 * number + 100, 30)
        trace.group(f"hcom_allReduce__586_{number}_1", 1000 * number + 200, 50)
    (row,) = COLLECTIVE_COSTS.records(profile_at(trace.write(tmp_path)))
    assert (row.count, row.total_us, row.size_bytes) == (3, 150, None)
    assert (row.without_wait_us, row.fastest_us, row.beyond_us, row.bandwidth_gb_s) == (None,) * 4
