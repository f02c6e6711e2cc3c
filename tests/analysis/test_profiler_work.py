"""What the profiler records of its own work is not the program: it is named and left out of verdicts."""

from __future__ import annotations

from pathlib import Path

import pytest
from by_hand import ByHand
from measured import profile_at

from npu_tui.strings import words


def _trace(name: str, lane: int, category: str) -> ByHand:
    """Five steps; in the fourth the host stops for 4 ms, which ``name`` on the thread ``lane`` covers."""
    trace = ByHand(gpu=True)
    at = done = 0.0
    for step in range(5):
        begin = at
        for k in range(12):
            trace.host("aten::mm", at - 1, 5 if (step, k) != (3, 5) else 4007)
            if (step, k) == (3, 5):
                trace.add(4001, lane, name, at, 4000, cat=category, args={})
                at += 4001
            done = max(done, at + 6) + 30
            trace.launch("gemm", at, done - 30, 30)
            at += 8
        at = done - 10
        trace.step(step, begin - 2, at - begin)
    return trace


@pytest.mark.parametrize(("name", "lane"), [("Buffer Flush", 4001), ("Activity Buffer Request", 0)])
def test_a_flush_of_the_profiler_is_named_and_left_out(tmp_path: Path, name: str, lane: int) -> None:
    profile = profile_at(_trace(name, lane, "overhead").write(tmp_path))
    lines = " ".join(words(line) for line in profile.findings.verdict)
    assert name in lines
    assert "step 3" in lines
    assert "DISPATCH" not in lines
    assert not [each.id for each in profile.findings.findings if each.severity != "info"]


@pytest.mark.parametrize(
    ("name", "category"), [("Runtime Triggered Module Loading", "overhead"), ("Buffer Flush", "user_annotation")]
)
def test_loading_of_kernels_and_ranges_of_the_program_count(tmp_path: Path, name: str, category: str) -> None:
    profile = profile_at(_trace(name, 4001, category).write(tmp_path))
    assert next(iter(profile.findings.findings)).severity == "high"
