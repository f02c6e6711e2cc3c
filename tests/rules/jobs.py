"""Simulated jobs with one trouble each, loaded, with the findings about them."""

from __future__ import annotations

import csv
import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from generate import Files, recorded
from kept import kept
from measured import profile_at
from msgspec import structs
from simulator import simulate, simulate_ranks
from situations import Situation
from troubled import TROUBLED

from npu_tui.analysis.limits import Thresholds
from npu_tui.analysis.memory import MemoryUse
from npu_tui.load.build import build_trace
from npu_tui.load.companion_schema import KERNELS, MEMORY, Reading, Schema
from npu_tui.load.companions import Companions
from npu_tui.load.csv_table import read_table
from npu_tui.load.json_reader import WholeColumns
from npu_tui.profile.companions import CompanionTables, memory_of
from npu_tui.profile.kernels import kernels_of
from npu_tui.profile.parts import WHOLE_TRACE, Selection
from npu_tui.profile.profile import Profile
from npu_tui.rules.facts import Facts
from npu_tui.rules.find import RULES
from npu_tui.rules.inputs import Setup
from npu_tui.rules.model import Finding, Findings
from npu_tui.rules.rule import Draft, Rule, Skipped
from npu_tui.trace.model import Health, Trace


def measured(
    situation: Situation | tuple[Situation, ...],
    selection: Selection = WHOLE_TRACE,
    thresholds: Thresholds | None = None,
) -> Profile:
    """The profile of ``situation``, of several ranks that of the first, with everything that is read again."""
    ranks = situation if isinstance(situation, tuple) else (situation,)
    with TemporaryDirectory() as alone:
        folder = Path(alone) / "profile"  # what lies beside it is looked at
        put(first_of(ranks), folder)
        found = profile_at(folder, thresholds).part(selection)
        _ = found.facts, found.findings
    return found


def put(files: Files, folder: Path) -> None:
    """Write ``files`` into ``folder``."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


@kept
def first_of(ranks: tuple[Situation, ...]) -> Files:
    """The files of the first rank."""
    recording = simulate_ranks(ranks)[0] if len(ranks) > 1 else simulate(ranks[0])
    return recorded(ranks[0], recording)


@cache
def job(trouble: str, seed: int = 7) -> Profile:
    """The troubled job of that name; ``limited`` is one with a CPU limit."""
    if trouble == "limited":
        with TemporaryDirectory() as folder:
            slow = first_of((replace(TROUBLED["slow_python"], seed=seed, steps=70, world_size=1),))
            found = profile_at(moved(slow, stopped, Path(folder) / "profile"))
            _ = found.facts, found.findings
        return found
    return measured(replace(TROUBLED[trouble], seed=seed))


def moved(files: Files, later: Callable[[float], float], folder: Path) -> Path:
    """The ``folder`` with the trace of ``files``, whose times are as ``later`` has them, µs from its first event."""
    (trace,) = (name for name in files if name.endswith("trace_view.json"))
    events = json.loads(files[trace])
    first = min(float(event["ts"]) for event in events if "ts" in event)
    for event in events:
        if "ts" in event:
            begin = float(event["ts"]) - first
            if "dur" in event:
                event["dur"] = round(later(begin + float(event["dur"])) - later(begin), 3)
            event["ts"] = f"{first + later(begin):.3f}"
    put({trace: json.dumps(events).encode()}, folder)
    return folder


def stopped(time: float) -> float:
    """A time of a process that a CPU limit stops after 60 ms of each period of 100 ms, µs."""
    return time // 60_000 * 100_000 + time % 60_000


def by_id(found: Findings) -> dict[str, Finding]:
    """The first finding of each id; only host work is told more than once, line by line."""
    rows = {each.id: each for each in reversed(found.findings)}
    assert all(each.id == "HOST.WORK" for each in found.findings if each is not rows[each.id])
    return rows


def rule(wanted: str) -> Rule:
    """The rule with that id."""
    return next(each for each in RULES if each.id == wanted)


def check(wanted: str, facts: Facts) -> Draft | Skipped | None:
    """What the rule ``wanted`` says where its inputs are there."""
    assert all(facts.has(needed) for needed in rule(wanted).inputs), wanted
    answer = rule(wanted).check(facts)
    return next(iter(answer), None) if isinstance(answer, tuple) else answer


Cells = dict[str, "str | None"]


def _bare() -> Trace:
    """A trace without slices, for rows of a table to lie beside."""
    return build_trace(WholeColumns(), "rows", (), None, Health())


def facts_of(
    found: Profile,
    setup: Setup | None = None,
    thresholds: Thresholds | None = None,
    kernels: Sequence[Cells] | None = None,
    memory: Sequence[Cells] | MemoryUse | None = None,
    **values: object,
) -> Facts:
    """The facts of the only device, with other files beside the trace or other thresholds.

    ``kernels`` and ``memory`` are rows of kernel_details.csv and memory_record.csv by their headings, ``values`` other
    values of ``Inputs``.
    """
    (device,) = found.devices
    changed: dict[str, object] = {"setup": setup or found.setup, "thresholds": thresholds or found.thresholds}
    if kernels is not None:
        bare = _bare()
        rows = [{"Start Time(us)": f"{10 * (k + 1)}.000", **row} for k, row in enumerate(kernels)]
        values["all_kernels"] = kernels_of(
            bare, NONE, [], CompanionTables(_Rows(Path(), schema=KERNELS, listed=rows), bare, NONE, NONE)
        )
    if isinstance(memory, MemoryUse):
        values["memory"] = memory
    elif memory is not None:
        rows = [{"Timestamp(us)": f"{k + 1}.000", **row} for k, row in enumerate(memory)]
        values["memory"] = memory_of(CompanionTables(_Rows(Path(), schema=MEMORY, listed=rows), _bare(), NONE, NONE))
    for name, value in values.items():
        changed[name] = value if name == "replay_of" else lambda value=value: value
    return Facts(device, structs.replace(found.inputs, **changed))


NONE = np.zeros(0, np.int64)


class _Rows(Companions, frozen=True, kw_only=True):
    """A folder with one table."""

    schema: Schema
    listed: Sequence[Cells]

    def has(self, schema: Schema) -> bool:
        return schema is self.schema

    def read(self, schema: Schema) -> Reading:
        with tempfile.TemporaryDirectory() as folder, open(f"{folder}/{schema.stem}.csv", "w", newline="") as file:
            rows = csv.DictWriter(file, list(dict.fromkeys(heading for row in self.listed for heading in row)))
            rows.writeheader()
            rows.writerows(self.listed)
            file.close()
            return read_table(Path(folder), schema)
