"""What a run would take with something changed: the answer of ``npu-tui whatif`` as a struct and in words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from npu_tui.analysis.replay import NO_CHANGE, Change, Replay, Run
from npu_tui.analysis.replay_device import COLLECTIVE, KERNEL
from npu_tui.analysis.what_if import Asked, asked
from npu_tui.profile.profile import Profile
from npu_tui.report.values import us
from npu_tui.strings import say
from npu_tui.trace.intervals import covered_before
from npu_tui.trace.message import Message, message
from npu_tui.trace.text import brief, cell_count, duration_text, padded, printable

SCHEMA_VERSION = 1
_CELLS = 64
_LEVELS = " ▁▂▃▄▅▆▇█"
_PLAIN_LEVELS = " .:-=+*%#"


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


def whatif_text(found: WhatIf, plain: bool = False) -> str:
    """``found`` in words; ``plain`` draws in ASCII."""
    return "\n".join(map(printable, whatif_lines(found, plain))) + "\n"


def whatif_lines(found: WhatIf, plain: bool = False) -> list[str]:
    """The lines of the answer: the step, the changes, and every stream as recorded with its ghost below it."""
    lines = [head(found), say("whatif.replayed", **_replayed(found)), ""]
    lines += _table(found)
    lines += ["", say("whatif.scale", length=1000 * max(found.recorded_us, found.step_after_us * found.steps))]
    for ghost in found.timeline:
        lines.append(ghost.stream)
        for name, shares in (("recorded", ghost.recorded), ("predicted", ghost.predicted)):
            lines.append(f"  {padded(say(f'whatif.{name}'), 10)}{bar(shares, plain)}")
    return lines


def head(found: WhatIf) -> str:
    """The step before and after in one line."""
    before, after = 1000 * found.step_us, 1000 * found.step_after_us
    gain = before - after
    if abs(gain) < 1e-4 * before:
        return say("whatif.head.same", before=before)
    share = abs(gain) / before if before else 0.0
    code = "whatif.head" if gain > 0 else "whatif.head.longer"
    return say(code, before=before, after=after, gain=abs(gain), share=share)


def _replayed(found: WhatIf) -> dict[str, object]:
    return {
        "replayed": 1000 * found.replayed_us,
        "recorded": 1000 * found.recorded_us,
        "error": found.error,
        "steps": found.steps,
    }


def _table(found: WhatIf) -> list[str]:
    rows = [[say(f"whatif.column.{name}") for name in ("change", "matches", "alone", "gain", "after")]]
    rows += [
        [
            brief(each.text, 60),
            str(each.matches),
            _gained(each.alone_us),
            _gained(each.gain_us),
            duration_text(1000 * each.step_us),
        ]
        for each in found.changes
    ]
    return rows_text(rows)


def _gained(us: float) -> str:
    return duration_text(1000 * us) if us else say("whatif.no_gain")


def rows_text(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of a table in columns, the first to the left, numbers to the right."""
    widths = [max(cell_count(row[k]) for row in rows) for k in range(len(rows[0]))]
    return [
        "  ".join(
            [padded(row[0], widths[0]), *(f"{cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in rows
    ]


def bar(shares: Sequence[float], plain: bool = False) -> str:
    """How busy, a character per part; a part that is busy at all is never blank."""
    levels = _PLAIN_LEVELS if plain else _LEVELS
    return "".join(levels[0 if not each else max(1, round(each * (len(levels) - 1)))] for each in shares)
