"""What a run would take with something changed: the answer of ``npu-tui whatif`` in numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from npu_tui.analysis.replay import NO_CHANGE, Change, Replay, Run
from npu_tui.analysis.replay_device import COLLECTIVE, KERNEL
from npu_tui.analysis.what_if import Asked, asked
from npu_tui.profile.profile import Profile
from npu_tui.profile.table import us
from npu_tui.trace.intervals import covered_before
from npu_tui.trace.message import Message, message
from npu_tui.trace.text import brief

SCHEMA_VERSION = 1
_CELLS = 64


class NoReplayError(ValueError):
    """A run that cannot be replayed; ``said`` says why."""

    def __init__(self, said: Message) -> None:
        super().__init__(said.code)
        self.said = said


class Row(Struct, frozen=True, kw_only=True):
    """One change: by how much it shortens a step ``alone`` and after those before it, and the step then."""

    text: str
    matches: int
    alone_us: float
    gain_us: float
    step_us: float


class Ghost(Struct, frozen=True, kw_only=True):
    """A stream: how busy it is as recorded and as predicted, each 0 to 1 in equal parts of the recorded length."""

    stream: str
    recorded: tuple[float, ...]
    predicted: tuple[float, ...]


class WhatIf(Struct, frozen=True, kw_only=True):
    """Lengths are means over the steps; ``error`` is by how much of it the unchanged replay misses the recording."""

    schema_version: int
    kind: str
    path: str
    device: int | None
    steps: int
    recorded_us: float
    replayed_us: float
    error: float
    step_us: float
    step_after_us: float
    gain_us: float
    changes: tuple[Row, ...]
    timeline: tuple[Ghost, ...]


def whatif(profile: Profile, texts: Sequence[str], cells: int = _CELLS) -> WhatIf:
    """The run of the first device of ``profile`` that can be replayed, with ``texts`` changed one after another.

    Raises ``NoReplayError``, ``UnknownChangeError`` for a text that means nothing here, and ``InputError`` if the file
    has changed.
    """
    device, replay = replay_of(profile)
    rows: list[Row] = []
    change = NO_CHANGE
    count = replay.steps
    for each in (asked(replay.model, text, profile.types_of) for text in texts):
        alone, after = replay.gain(each.change), replay.length(change | each.change)
        gain = replay.length(change) - after
        change = change | each.change
        rows.append(_row(each, alone / count, gain / count, after / count))
    run = replay.run(change)
    after = replay.length(change)
    return WhatIf(
        schema_version=SCHEMA_VERSION,
        kind="whatif",
        path=profile.path,
        device=device,
        steps=count,
        recorded_us=us(replay.recorded),
        replayed_us=us(replay.replayed),
        error=round(replay.error, 6),
        step_us=us(replay.replayed / count),
        step_after_us=us(after / count),
        gain_us=us((replay.replayed - after) / count),
        changes=tuple(rows),
        timeline=_timeline(replay, run, change, cells),
    )


def predicted(profile: Profile, texts: Sequence[str]) -> Run:
    """The run of that device with all of ``texts`` changed; raises what ``whatif`` does."""
    _, replay = replay_of(profile)
    change = NO_CHANGE
    for text in texts:
        change = change | asked(replay.model, text, profile.types_of).change
    return replay.run(change)


def _row(each: Asked, alone: float, gain: float, after: float) -> Row:
    return Row(text=each.text, matches=each.matches, alone_us=us(alone), gain_us=us(gain), step_us=us(after))


def replay_of(profile: Profile) -> tuple[int | None, Replay]:
    """The first device that can be replayed with the model of its run; raises ``NoReplayError`` without one."""
    found = [(part.device, replay) for part, replay in profile.replays if replay is not None]
    if not found:
        raise NoReplayError(message("whatif.no_model"))
    for device, replay in found:
        if replay.trusted:
            return device, replay
    raise NoReplayError(message("whatif.not_close", error=found[0][1].error))


def _timeline(replay: Replay, run: Run, change: Change, cells: int) -> tuple[Ghost, ...]:
    """The streams by how long they are busy as recorded, most first."""
    tasks, trace = replay.model.tasks, replay.model.trace
    busy = np.flatnonzero(np.isin(tasks.kind, (KERNEL, COLLECTIVE)))
    first, length = (
        min(int(tasks.start[busy].min()), int(run.starts[busy].min())),
        max(replay.recorded, replay.length(change)),
    )
    edges = first + np.linspace(0, length, cells + 1)
    found: list[tuple[int, Ghost]] = []
    for stream in np.unique(tasks.stream[busy]).tolist():
        own = busy[tasks.stream[busy] == stream]
        shares = []
        for start, end in ((tasks.start[own], tasks.end[own]), (run.starts[own], run.ends[own])):
            before = covered_before(start, end, edges)
            shares.append(tuple(round(float(each), 4) for each in np.clip(np.diff(before) / (length / cells), 0, 1)))
        name = brief(trace.lanes[stream].name)
        found.append(
            (
                -int((tasks.end[own] - tasks.start[own]).sum()),
                Ghost(stream=name, recorded=shares[0], predicted=shares[1]),
            )
        )
    return tuple(ghost for _, ghost in sorted(found, key=lambda row: row[0]))
