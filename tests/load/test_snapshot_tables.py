"""The tables of memory snapshots: sums of a simulated run, and of real files by other programs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import npu_tui
from tests.conftest import WITHOUT_TRACES
from tests.load.test_snapshot import MB, simulated, written

STACKS = "SELECT sum(peak_bytes) p, sum(peak_blocks) b, sum(end_bytes) e, sum(blocks) n FROM stacks"
STATES = "SELECT state, count(*) n, sum(size) s, sum(taken) t FROM blocks GROUP BY state ORDER BY state"
ACTIONS = "SELECT action, count(*) n FROM events WHERE action <> 'x' GROUP BY action ORDER BY action"
SEGMENTS = "SELECT count(*) n, sum(size) s, sum(unused) u FROM segments"


def asked(path: Path, *queries: str) -> list[list[Any]]:
    profile = npu_tui.open(path)
    return [[tuple(row) for row in profile.sql(sql).rows()] for sql in queries]


def test_tables_of_a_simulated_run(tmp_path: Path):
    path = written(tmp_path, simulated(leak=4 * MB))
    # The stack of a block says who allocated it, its event when.
    joined = "FROM blocks b JOIN events e ON b.allocated_at = e.event JOIN stacks s ON b.stack = s.stack"
    where, which = "WHERE line = 9", f"WHERE b.size = {32 * MB}"
    lines, stacks = f"SELECT file, line, end_bytes FROM stacks {where}", f"SELECT e.event, s.line {joined} {which}"
    sums, states, segments, ninth, large = asked(path, STACKS, STATES, SEGMENTS, lines, stacks)
    assert sums == [((64 + 200 + 32 + 4 * 4) * MB, 206, (64 + 32 + 16) * MB, 1 + 1 + 4 * 202)]
    assert states == [
        ("active_allocated", 6, 112 * MB, 112 * MB + 6 * 512), ("freed", 804, 800 * MB + 160, None),
        ("inactive", 1, None, 8 * MB),
    ]  # fmt: skip
    assert segments == [(1, 512 * MB, 8 * MB)]
    assert ninth == [("/home/me/train.py", 9, 16 * MB)]
    assert large == [(204, 7)]


def test_the_report_of_the_api_is_that_of_the_command(tmp_path: Path):
    profile = npu_tui.open(written(tmp_path, simulated(leak=4 * MB)))
    report = profile.report()
    assert report.to_dict()["kind"] == "memory"
    assert report.verdict[0] == "train.py:9 step keeps 4.0 MiB more in every step"
    assert report.verdict[0] in report.text()
    assert report.verdict[0] in report.html()
    assert "█" in report.text()  # the curve


def test_the_api_compares_snapshots(tmp_path: Path):
    (tmp_path / "base").mkdir()
    base = npu_tui.open(written(tmp_path / "base", simulated()))
    new = npu_tui.open(written(tmp_path, simulated(leak=4 * MB)))
    found = base.compare(new)
    assert found.verdict.splitlines()[1] == "train.py:9 step grew most at the peak: 0 B → 16.0 MiB (+16.0 MiB)"
    assert found.to_dict()["kind"] == "compare_memory"
    for said in (found.text(), found.html()):
        assert "train.py:9 step grew most at the peak" in said
    other = tmp_path / "trace_view.json"
    other.write_text('[{"name": "a", "ph": "X", "ts": 1, "dur": 1, "pid": 1, "tid": 1}]')
    with pytest.raises(npu_tui.Error, match="is no memory snapshot, but"):
        new.compare(npu_tui.open(other))


REAL = {
    "snapshot_1768383987920985470": (471498368, 968, 0, 3216, {"freed": 3216}, 551550976, 551550976),
    "snapshot_expandable": (
        597327488,
        971,
        408384288,
        3219,
        {"active_allocated": 645, "freed": 2574},
        643825664,
        235126784,
    ),
    "snapshot_with_empty_cache": (
        597327488,
        971,
        408384288,
        3219,
        {"active_allocated": 645, "freed": 2574},
        509607936,
        93190144,
    ),
}


@pytest.mark.parametrize("name", REAL)
def test_tables_of_real_snapshots(name: str):
    folder = os.environ.get("NPU_TUI_TRACES")
    path = Path(folder or "", "memory", f"{name}.pkl")
    if not folder or not path.exists():
        pytest.skip(reason=WITHOUT_TRACES)
    *held, states, reserved, unused = REAL[name]
    stacks, found, segments, actions = asked(path, STACKS, STATES, SEGMENTS, ACTIONS)
    assert stacks == [tuple(held)]
    assert {state: count for state, count, *_ in found if state != "inactive"} == states
    assert [row[1:] for row in segments] == [(reserved, unused)]
    assert dict(actions)["alloc"] == held[3] - (0 if held[2] == 0 else 320)
