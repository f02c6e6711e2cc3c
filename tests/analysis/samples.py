"""Random variations of the simulator's jobs, rows of companion files, and the parts of a trace that tests look at."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from generate import build, write
from situations import SITUATIONS

from npu_tui.analysis.device import DeviceSlices, device_slices
from npu_tui.analysis.launches import Dispatch, LaunchPairs, busy_pairs, dispatch
from npu_tui.analysis.limits import Thresholds
from npu_tui.analysis.overlap import FreeSplit, OverlapLanes, free_split, overlap_lanes
from npu_tui.load.load import load
from npu_tui.trace.model import Trace


@dataclass(frozen=True)
class Simulated:
    """A simulated profile as it is loaded, and the simulator's truth about it."""

    trace: Trace
    truth: dict


def simulated(seed: int, folder: Path) -> Simulated:
    """The profile of a seed: the situations in turn, the small ones with other numbers of steps and delays."""
    names = sorted(SITUATIONS)
    situation = replace(SITUATIONS[names[seed % len(names)]], seed=90_000 + seed)
    if situation.steps < 4:
        situation = replace(situation, steps=1 + seed % 3, layers=1)
    write(build(situation), folder)
    return Simulated(load(folder), json.loads((folder / "truth.json").read_text()))


def rows_of(path: Path) -> Iterator[dict[str, str]]:
    """Rows of a companion file; its cells may end in a tab."""
    with path.open(newline="", encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            yield {key.strip(): value.strip() for key, value in row.items() if isinstance(value, str)}


@dataclass(frozen=True)
class Parts:
    """The only device of a trace with its lanes, launches and free time."""

    device: DeviceSlices
    lanes: OverlapLanes
    launches: Dispatch
    pairs: LaunchPairs
    split: FreeSplit


def parts_of(trace: Trace) -> Parts:
    (device,) = device_slices(trace)
    (lanes,) = overlap_lanes(trace, [device])
    (launches,) = dispatch(trace, [device], Thresholds())
    pairs = busy_pairs(trace, device, launches)
    return Parts(device, lanes, launches, pairs, free_split(trace, device, lanes, pairs))
