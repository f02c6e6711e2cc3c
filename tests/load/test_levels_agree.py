"""Two runs of one script at Level0 and Level1 agree on everything that both levels record."""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path

import pytest

from npu_tui.load.load import load
from npu_tui.trace.model import Trace
from tests.conftest import WITHOUT_TRACES

TRACES = os.environ.get("NPU_TUI_TRACES")
pytestmark = pytest.mark.skipif(TRACES is None, reason=WITHOUT_TRACES)
PROFILER_ONLY = {"PROFILING_ENABLE", "PROFILING_DISABLE"}


def shared(trace: Trace) -> list[tuple[str, int, int, Counter[str]]]:
    """(layer, slices, rows, names) of the lanes that Level0 has too; addresses and the hash of the group aside."""
    found = []
    for layer in trace.layers:
        if layer.kind == "cann":
            continue
        for lane in (trace.lanes[index] for index in layer.lanes):
            names = Counter(_plain(trace.name_of(item)) for item in range(lane.first, lane.last))
            if lane.name.startswith("Plane ") or PROFILER_ONLY & set(names):
                continue
            found.append((layer.name, lane.last - lane.first, lane.rows, names))
    return sorted(found, key=lambda lane: lane[:3])


def _plain(name: str) -> str:
    return re.sub(r"__\d{3}_", "__", re.sub(r"0x[0-9a-f]+", "0x", name))


@pytest.mark.parametrize("rank", [0, 1])
def test_lanes_and_links_are_the_same(rank: int) -> None:
    levels = [load(Path(str(TRACES)) / "text" / level / f"rank{rank}_ascend_pt") for level in ("level0", "level1")]
    low, high = (shared(trace) for trace in levels)
    assert [lane[:3] for lane in low] == [lane[:3] for lane in high]
    for (layer, *_, before), (_, _, _, after) in zip(low, high, strict=True):
        assert before == after, layer
    counts = [{name: len(trace.links_of(name)) for name in trace.link_categories} for trace in levels]
    assert counts[0] == counts[1]
    assert all((trace.links.source_slice >= 0).all() and (trace.links.target_slice >= 0).all() for trace in levels)
