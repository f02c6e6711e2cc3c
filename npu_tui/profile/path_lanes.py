"""The critical paths of a profile as the screen shows them: a lane each, whose every stretch is, where they run."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from npu_tui.analysis.owners import owners
from npu_tui.analysis.path import (
    COMPUTE,
    COPY,
    HOST,
    LATENCY,
    NO_PEER,
    TRANSFER,
    UNEXPLAINED,
    Owner,
    Owners,
    Path,
    critical_path,
)
from npu_tui.analysis.replay import Change, Replay
from npu_tui.native.cells import spread
from npu_tui.profile.profile import Profile
from npu_tui.rules.facts import Facts
from npu_tui.rules.told_path import ToldPath, owner_name, owner_text, short_call
from npu_tui.strings import say, words
from npu_tui.trace.arrays import I8, I32, I64, Bools
from npu_tui.trace.classes import OpClass
from npu_tui.trace.folded_rows import folded_row
from npu_tui.trace.kineto import launch_links
from npu_tui.trace.model import Trace, make_rows
from npu_tui.trace.text import drawable
from npu_tui.view.path_lane import PathLane, PathMarks
from npu_tui.view.scene import Chart, StepFunction

_OF_HOST = ("python", "cann")


class ShownPath(Struct, eq=False):
    """A critical path with its ``lane``, None where it is not told; ``longest`` has the stretches by length."""

    told: ToldPath
    lane: PathLane | None = None
    longest: I64 = np.zeros(0, np.int64)

    @property
    def found(self) -> Owners:
        """The stretches and their owners."""
        assert self.told.owners is not None
        return self.told.owners

    def lasts(self, stretch: int) -> int:
        """How long a stretch lasts, ns."""
        path = self.found.path
        return int(path.end[stretch] - path.start[stretch])

    @property
    def length(self) -> int:
        """How long the path is, ns."""
        return self.found.path.length

    def owner_name(self, number: int) -> str:
        """What owner ``number`` is called."""
        assert self.lane is not None
        return self.lane.names[number].partition("\n")[0]

    def name(self, stretch: int) -> str:
        """Whose a stretch is, in words."""
        return self.owner_name(int(self.found.owner[stretch]))


def shown_paths(profile: Profile) -> list[ShownPath]:
    """The paths of all devices of ``profile``; raises ``InputError`` as ``critical_paths`` does."""
    paths = profile.critical_paths
    tids = {part.device: replay.model.tids for part, replay in profile.replays if replay is not None} if paths else {}
    return [_shown_path(profile.trace, told, tids.get(told.device, np.zeros(0, np.int64))) for told in paths]


def path_charts(trace: Trace, shown: Sequence[ShownPath]) -> list[Chart]:
    """A lane for each of the paths of ``trace`` that are told."""
    layers = [layer for layer in trace.layers if layer.kind == "hardware" and layer.lanes]
    charts, lanes = [], [path for path in shown if path.lane is not None]
    for path in lanes:
        layer = next((layer for layer in layers if layer.device == path.told.device), None)
        if layer is None or path.lane is None:
            continue
        name = say("lane.path_of", device=path.told.device) if len(lanes) > 1 else say("lane.path")
        charts.append(Chart("path", layer.index, name, partial(_step_function_without_steps, trace), path=path.lane))
    return charts


def _step_function_without_steps(trace: Trace) -> StepFunction:
    none = np.zeros(0, np.int64)
    return StepFunction(none, none, trace.end)


def played_path(profile: Profile, facts: Facts, replay: Replay, change: Change, played: Trace, place: I64) -> ShownPath:
    """The path of the run of ``replay`` with ``change``, as ``analysis.film`` has ``played`` it.

    ``place`` is the number of each recorded slice there. The gain of an owner is what is gained beside ``change``.
    """
    path = critical_path(replay, change)
    found = owners(replay, profile.types_of, path, facts.judged, change)
    path = replace(found.path, item=place[found.path.item])
    told = ToldPath(facts.part.device, facts.unit_name, facts.count, replay.model.floor, replace(found, path=path))
    return _shown_path(played, told, replay.model.tids)


def _shown_path(trace: Trace, told: ToldPath, tids: I64) -> ShownPath:
    found = told.owners
    if found is None or not len(found.path):
        return ShownPath(told)
    path = found.path
    longest = np.argsort(path.start - path.end, kind="stable")
    names = ["\n".join(_forms(trace, owner)) for owner in found.owners]
    marks, item = _path_marks(trace, path, tids, told.floor)
    rows = make_rows(np.array([0, len(path)], np.int64), item, path.start, path.end)
    owner = found.owner.astype(np.int32)
    return ShownPath(
        told,
        PathLane(rows, _stretch_classes(trace, found), owner, names, marks, _launching_links(trace, path)),
        longest,
    )


def _forms(trace: Trace, owner: Owner) -> list[str]:
    """What an owner is called, in ever fewer words."""
    whole = words(owner_text(trace, owner))
    short = words(owner_name(trace, owner))
    if owner.doing == "device" and owner.kind in ("latency", "device_gap", "unexplained"):
        short = say(f"path.kind.{owner.kind}")
    elif owner.doing == "launch":
        short = say("path.owner.launching")
    last = short if owner.doing != "wait" else short_call(owner.name)
    last = last.rpartition(".")[2] if " " not in last else last  # ``__next__`` of torch.utils.data.dataloader
    return [drawable(text) for text in dict.fromkeys((whole, short, last or short))]


def _stretch_classes(trace: Trace, found: Owners) -> I8:
    """How each stretch is drawn: work as such, launching as what fills queues, all waiting as waits."""
    path = found.path
    launches = np.array([owner.doing == "launch" for owner in found.owners])[found.owner]
    item = np.maximum(path.item, 0)
    kernel = trace.slices.op_class[item] if len(trace.slices) else np.zeros(len(item), np.int8)
    classes = np.select(
        [path.kind == HOST, path.kind == COMPUTE, path.kind == COPY, path.kind == TRANSFER, path.kind == UNEXPLAINED],
        [
            np.where(launches, int(OpClass.QUEUE), int(OpClass.OP)), kernel, int(OpClass.MEMORY),
            int(OpClass.COMMUNICATION), int(OpClass.OTHER),
        ],
        int(OpClass.WAIT),
    )  # fmt: skip
    return classes.astype(np.int8)


def _path_marks(trace: Trace, path: Path, tids: I64, floor: int) -> tuple[PathMarks, I32]:
    """Where ``path`` runs through slices: those it is about, on the host the innermost ones of each thread.

    Then the slice of every stretch, on the host the one that it spends most time in; -1 without one.
    """
    slices = trace.slices
    kinds = np.array([trace.layers[lane.layer].kind in _OF_HOST for lane in trace.lanes], np.bool_)
    columns: list[tuple[I64, I64, I64, I64]] = []
    about = np.flatnonzero((path.item >= 0) & (path.kind != HOST))
    item = path.item[about]
    shift = np.where(kinds[slices.lane[item]], 0, floor)
    columns.append((item, path.start[about] + shift, path.end[about] + shift, about))
    for lane in trace.lanes:
        thread = np.flatnonzero(tids == lane.tid)
        if not len(thread) or not kinds[lane.index] or lane.derived:
            continue
        own = np.flatnonzero((path.kind == HOST) & (path.thread == thread[0]))
        pieces = folded_row(trace, lane)
        low = np.searchsorted(pieces.end, path.start[own], "right")
        count = np.maximum(np.searchsorted(pieces.start, path.end[own]) - low, 0)
        at, stretch = spread(low, count), np.repeat(own, count)
        start = np.maximum(pieces.start[at], path.start[stretch])
        end = np.minimum(pieces.end[at], path.end[stretch])
        columns.append((pieces.item[at].astype(np.int64), start, end, stretch))
    item, start, end, stretch = (np.concatenate(column) for column in zip(*columns, strict=True))
    start, end = np.maximum(start, slices.start[item]), np.minimum(end, slices.end[item])
    lasting = np.flatnonzero(end > start)
    item = item[lasting]
    of_lane = slices.lane[item].astype(np.int32)
    first_row = np.array([lane.first_row for lane in trace.lanes], np.int32)
    row: I32 = (first_row[of_lane] + slices.depth[item]).astype(np.int32)
    start, end, stretch = start[lasting], end[lasting], stretch[lasting]
    about_most = np.where(path.kind == HOST, -1, path.item)
    order = np.lexsort((end - start, stretch))
    order = order[np.append(stretch[order][1:] != stretch[order][:-1], True)[: len(order)]]
    order = order[path.kind[stretch[order]] == HOST]
    about_most[stretch[order]] = item[order]
    return PathMarks.sorted(of_lane, row, start, end, stretch.astype(np.int32)), about_most.astype(np.int32)


def _launching_links(trace: Trace, path: Path) -> Bools:
    """Which links launch what the path comes to from the host."""
    taken = np.zeros(len(trace.links), np.bool_)
    links = launch_links(trace)
    on_host = np.append(False, path.kind[:-1] == HOST)
    launched = path.item[(path.kind == LATENCY) & on_host & (path.item >= 0) & (path.peer == NO_PEER)]
    if len(links) and len(launched):
        is_launched = np.zeros(len(trace.slices) + 1, np.bool_)
        is_launched[launched] = True
        taken[links[is_launched[trace.links.target_slice[links]]]] = True
    return taken
