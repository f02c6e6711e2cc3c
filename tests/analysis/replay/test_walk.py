"""The path to a node inside a run, against that to its end."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from measured import profile_at

from npu_tui.analysis.path import Path as CriticalPath
from npu_tui.analysis.path import Paths, critical_path
from npu_tui.analysis.replay import Replay
from npu_tui.analysis.replay_device import COLLECTIVE, KERNEL

FIXTURES = Path(__file__).resolve().parents[3] / "fixtures"
PLACES = ("two_ranks/rank0_ascend_pt", "two_ranks/rank1_ascend_pt", "communication_bound", "healthy", "dispatch_bound")


def replay_at(name: str) -> Replay:
    ((_, replay),) = profile_at(FIXTURES / name).replays
    assert replay is not None
    return replay


def columns(path: CriticalPath) -> np.ndarray:
    return np.stack([getattr(path, name).astype(np.int64) for name in path.__struct_fields__])


def joined(parts: list[CriticalPath]) -> np.ndarray:
    every = np.concatenate([columns(part) for part in parts], axis=1)
    return every[:, np.argsort(every[0], kind="stable")]


@pytest.mark.parametrize("kind", [COLLECTIVE, KERNEL])
@pytest.mark.parametrize("name", PLACES)
def test_parts_between_the_tasks_that_stop_a_walk_are_the_whole_path(name: str, kind: int):
    replay = replay_at(name)
    paths, whole = Paths(replay), critical_path(replay)
    stops = replay.model.tasks.kind == kind
    parts, node, stopped = [], None, []
    while True:
        reach = paths.reach(node, stops)
        parts += [reach.path, reach.rest]
        if reach.task < 0:
            break
        assert stops[reach.task]
        stopped.append(reach.task)
        node = reach.node
    assert (joined(parts) == columns(whole)).all()
    assert len(set(stopped)) == len(stopped)


@pytest.mark.parametrize("name", PLACES)
def test_the_path_to_a_task_ends_when_it_begins(name: str):
    replay = replay_at(name)
    paths, tasks = Paths(replay), replay.model.tasks
    nothing = np.zeros(len(tasks), np.bool_)
    since = int(critical_path(replay).start[0])
    for task in range(0, len(tasks), 7):
        begin = int(replay.model.time[replay.model.start_node[task]])
        reach = paths.reach(int(replay.model.start_node[task]), nothing)
        if begin <= since:
            continue
        path = reach.path
        assert (int(path.start[0]), int(path.end[-1])) == (since, begin)
        assert (path.end[:-1] == path.start[1:]).all()
