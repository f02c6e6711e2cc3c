"""The history of a run: one small file a run in a folder that a team shares, and what a profile or a job says for one.

A file is one JSON object, written whole and never changed, so that folders are merged by copying files. Every run that
is added gets a file name of its own. What is no file of this kind, or a damaged one, is counted and left out.
"""

from __future__ import annotations

import hashlib
import re
import statistics
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import ClassVar, Literal

import msgspec
import numpy as np
from msgspec import Struct
from msgspec.structs import asdict, replace

from npu_tui.analysis.steps import warm_up_steps
from npu_tui.jobs.job import Job
from npu_tui.jobs.kept import RUN
from npu_tui.jobs.model import RankProfile
from npu_tui.load.companions import companions_of
from npu_tui.load.errors import InputError
from npu_tui.load.find import find_source
from npu_tui.profile.engine_tables import ENGINE_STEPS
from npu_tui.profile.profile import Profile
from npu_tui.profile.table import Record, us
from npu_tui.profile.work_tables import OVERLAP, STEPS
from npu_tui.trace.intervals import parted
from npu_tui.trace.message import Message, message
from npu_tui.trace.side_file import paths_in, read_regular
from npu_tui.trace.text import printable

_LARGEST = 1 << 16  # bytes: a run is some hundred, and a log is read whole
_LEAST_US, _MOST_US = 0.001, 1e15  # below a ns, or above 31 years, a step is damage
_MOST_KINDS = 64  # of steps in a run; those of engines are a handful
_YEARS = 1970, 9999  # ``datetime`` ends with 9999
_VERSIONS = ("cann_version", "torch_npu_version", "mindspore_version")
_CALLS = ("annotations", "graphs", "rhythm")

Per = Literal["step", "engine_step", "run"]


class RunTimes(Struct, frozen=True, kw_only=True):
    """Medians of ``steps`` steps without warm-up, µs; None is unknown. The parts need not add up."""

    PARTS: ClassVar[tuple[str, ...]] = ("computing_us", "exposed_us", "free_us", "lost_us")

    steps: int = 0
    step_us: float | None = None
    computing_us: float | None = None
    exposed_us: float | None = None
    free_us: float | None = None
    lost_us: float | None = None


class OfKind(RunTimes, frozen=True, kw_only=True):
    """The steps of one ``kind``: of an engine, such as decode, or of one role of a job."""

    kind: str


class LoggedRun(RunTimes, frozen=True, kw_only=True):
    """One run as its file has it. ``id`` identifies the profile that was measured; ``when`` orders the runs (ISO 8601).

    ``per`` is what its times measure: the steps of training; those of an engine; or all of the run, which then counts
    as one step, where none are marked. Where they are of several kinds or roles, ``kinds`` has them, and the run itself
    has none. ``setup`` are versions and the chip.
    """

    format: Literal["npu-tui run"] = "npu-tui run"
    schema_version: Literal[1] = 1
    id: str
    label: str
    when: str
    path: str
    per: Per
    ranks: int
    level: int | None
    setup: dict[str, str]
    kinds: list[OfKind] = []

    @property
    def series(self) -> tuple[Per, int, int | None, str | None]:
        """What runs must have in common to be of one level: what times measure, ranks, profiler level, chip."""
        return self.per, self.ranks, self.level, self.setup.get("chip")

    @property
    def steps_of(self) -> list[str | None]:
        """The kinds of its steps, None for those of training."""
        return [None] if self.step_us is not None else [times.kind for times in self.kinds]

    def time(self, kind: str | None, name: str = "step_us") -> float | None:
        """The time ``name`` of its steps of ``kind``, µs."""
        times = self if kind is None else next((times for times in self.kinds if times.kind == kind), None)
        found: float | None = getattr(times, name, None)
        return found


class Log(Struct, frozen=True):
    """The ``runs`` of a folder by time; ``problems`` are about its other files; ``damaged`` of them cost a run each."""

    path: str
    runs: list[LoggedRun]
    problems: list[Message]
    damaged: int


def read_log(folder: Path) -> Log:
    """The log in ``folder``. Raises ``InputError`` where there is no such folder."""
    try:
        files = [file for file in paths_in(folder) if not file.name.startswith(".")]
    except OSError as error:
        raise InputError(message("log.none", path=str(folder), why=error.strerror or str(error))) from error
    runs: dict[tuple[str, str], tuple[str, LoggedRun]] = {}
    problems: list[Message] = []
    foreign = copies = damaged = 0
    for file in files:
        if not file.name.endswith(RUN):
            foreign += 1
            continue
        try:
            run = _checked(msgspec.json.decode(read_regular(file, _LARGEST), type=LoggedRun))
        except (OSError, ValueError, RecursionError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            problems.append(message("log.damaged", file=printable(file.name), why=printable(why or "")))
            damaged += 1
            continue
        key = run.id, run.label
        copies += key in runs  # copied, or added by two at a time
        runs.setdefault(key, (file.name, run))
    if copies:
        problems.append(message("log.copies", count=copies))
    if foreign:
        problems.append(message("log.foreign", count=foreign))
    ordered = sorted(runs.values(), key=lambda row: (_checked_time(row[1].when), row[0]))
    return Log(str(folder), [run for _, run in ordered], problems, damaged)


def _checked(run: LoggedRun) -> LoggedRun:
    """``run`` as it may be shown. Raises ``ValueError`` where it cannot be one."""
    if len(run.kinds) > _MOST_KINDS:
        raise ValueError(f"{len(run.kinds)} kinds")
    for times in (run, *run.kinds):
        for name in ("step_us", *RunTimes.PARTS):
            value = getattr(times, name)
            if value and not _LEAST_US <= value <= _MOST_US:
                raise ValueError(f"{value} us")
        if times.steps < 0:
            raise ValueError(f"{times.steps} steps")
    return replace(
        run, id=printable(run.id), label=printable(run.label), path=printable(run.path),
        when=_checked_time(run.when).isoformat(),
        setup={printable(key): printable(value) for key, value in run.setup.items()},
        kinds=[replace(times, kind=printable(times.kind)) for times in run.kinds],
    )  # fmt: skip


def _checked_time(when: str) -> datetime:
    time = datetime.fromisoformat(when.replace("Z", "+00:00"))
    if time.tzinfo is None or not _YEARS[0] <= time.year < _YEARS[1]:
        raise ValueError(when)
    return time


def file_name(run: LoggedRun, token: str) -> str:
    """What the file of ``run`` is called; ``token`` separates it from what others write at the same time."""
    stamp = re.sub(r"[^0-9]", "", run.when)[:14]
    label = re.sub(r"[^A-Za-z0-9._-]+", "-", run.label).strip("-.")[:40]
    return f"{'-'.join(filter(None, (stamp, label, token)))}{RUN}"


def run_of(profile: Profile, label: str, when: str, linked: bool = True) -> LoggedRun:
    """The entry of ``profile`` in a log; its lost time is unknown unless it is ``linked``."""
    kinds = _engine_times(profile) if profile.engine.basis in _CALLS else []
    per: Per = "engine_step"
    times = RunTimes()
    if not kinds:
        per, times = _step_times(profile)
    if not linked:
        times, kinds = replace(times, lost_us=None), [replace(row, lost_us=None) for row in kinds]
    setup = {} if profile.companions is None else _versions(profile.companions.profiler_info)
    if profile.setup.chip:
        setup["chip"] = printable(profile.setup.chip)
    return LoggedRun(
        id=_id([profile.trace.start_ns, profile.trace.end, times, kinds]), label=printable(label), when=when,
        path=printable(profile.path), per=per, ranks=1, level=profile.profiler_level, setup=setup, kinds=kinds,
        **asdict(times),
    )  # fmt: skip


def _id(told: list[object]) -> str:
    return hashlib.sha256(repr(told).encode()).hexdigest()[:16]


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(statistics.median(known), 3) if known and len(known) == len(values) else None


def _step_times(profile: Profile) -> tuple[Per, RunTimes]:
    rows = STEPS.records(profile, together=True)
    lost = _lost_by_step(profile)
    named = [(row, lost.get(row.step)) for row in rows if row.name is not None and row.duration_us is not None]
    if not named:
        sheet = OVERLAP.make(profile)
        values = [sheet.values(name) for name in ("total", "computing", "not_overlapped", "free")]
        step, computing, exposed, free = (us(sum(each)) if each and None not in each else None for each in values)
        lost_us = us(sum(float(part.lost.sum()) for part in profile.dispatch)) if profile.dispatch else None
        times = RunTimes(
            steps=1, step_us=step, computing_us=computing, exposed_us=exposed, free_us=free, lost_us=lost_us
        )
        return "run", times
    later = named[warm_up_steps(np.array([row.duration_us * 1000 for row, _ in named], np.int64)) :]
    return "step", RunTimes(
        steps=len(later),
        step_us=_median([row.duration_us for row, _ in later]),
        computing_us=_median([row.computing_us for row, _ in later]),
        exposed_us=_median([row.communication_not_overlapped_us for row, _ in later]),
        free_us=_median([row.free_us for row, _ in later]),
        lost_us=_median([time for _, time in later]),
    )


def _lost_by_step(profile: Profile) -> dict[int | None, float]:
    """The lost time of each step by its number, µs; empty without launches."""
    dispatches = profile.dispatch
    steps = [step for step in profile.steps if step.window is not None]
    if not dispatches or not steps:
        return {}
    start = np.array([step.window.start for step in steps if step.window is not None])
    end = np.array([step.window.end for step in steps if step.window is not None])
    sums = np.zeros(len(steps))
    for part in dispatches:
        # A wait belongs to the step that it begins in, as Free is, and is cut where the next one begins.
        waits = part.ready[part.lost > 0], np.rint(part.ready + part.lost)[part.lost > 0].astype(np.int64)
        low, high = parted(*waits, start)
        place = np.searchsorted(start, low, "right") - 1
        inside = (place >= 0) & (low < end[place])
        np.add.at(sums, place[inside], (high - low)[inside])
    return {step.number: time / 1000 for step, time in zip(steps, sums.tolist(), strict=True)}


def _engine_times(profile: Profile) -> list[OfKind]:
    """The steps of an engine by kind; computing and communication where each step is a call that is marked."""
    marked = profile.engine.basis == "annotations"
    parts = {row.step: row for row in STEPS.records(profile, together=True)} if marked else {}
    kinds: dict[str, list[Record]] = {}
    for row in ENGINE_STEPS.records(profile):
        if row.device_span_us is not None:
            kinds.setdefault(row.kind.lower(), []).append(row)
    found = []
    for kind, rows in kinds.items():
        spent = [parts.get(row.ordinal) for row in rows]
        found.append(
            OfKind(
                kind=printable(kind),
                steps=len(rows),
                step_us=_median([row.device_span_us for row in rows]),
                computing_us=_median([getattr(part, "computing_us", None) for part in spent]),
                exposed_us=_median([getattr(part, "communication_not_overlapped_us", None) for part in spent]),
                free_us=_median(
                    [None if row.device_busy_us is None else row.device_span_us - row.device_busy_us for row in rows]
                ),
                lost_us=_median([row.lost_us for row in rows]),
            )
        )
    return found


def run_of_job(job: Job, label: str, when: str) -> LoggedRun:
    """What ``job`` is in a log: the median of the medians of its ranks, by role where it has several.

    Lost time is not known. Versions are those of its first rank.
    """
    by_role: dict[str, list[RankProfile]] = {}
    for profile in job.ranks:
        by_role.setdefault(profile.role, []).append(profile)
    times = {role: _rank_times(ranks) for role, ranks in by_role.items()}
    kinds = [OfKind(kind=printable(role), **asdict(row)) for role, row in times.items()] if len(times) > 1 else []
    info: Mapping[str, object] = {}
    with suppress(InputError, OSError):  # summaries of ranks have none
        info = companions_of(find_source(job.ranks[0].path)).profiler_info
    levels = {profile.level for profile in job.ranks}
    return LoggedRun(
        id=_id([[profile.begun for profile in job.ranks], times]), label=printable(label), when=when,
        path=printable(str(job.path)), per="step", ranks=len(job.ranks),
        level=levels.pop() if len(levels) == 1 else None, setup=_versions(info), kinds=kinds,
        **asdict(RunTimes() if kinds else times[job.ranks[0].role]),
    )  # fmt: skip


def _rank_times(ranks: Sequence[RankProfile]) -> RunTimes:
    sums: dict[str, list[float]] = {}
    count = 0
    for profile in ranks:
        steps = profile.steps[warm_up_steps(np.array([step.total for step in profile.steps], np.int64)) :]
        count = max(count, len(steps))
        for name in ("total", "computing", "exposed", "free") if steps else ():
            sums.setdefault(name, []).append(statistics.median(getattr(step, name) for step in steps) / 1000)
    step, computing, exposed, free = (_median(sums.get(name, [])) for name in ("total", "computing", "exposed", "free"))
    return RunTimes(steps=count, step_us=step, computing_us=computing, exposed_us=exposed, free_us=free)


def _versions(info: Mapping[str, object]) -> dict[str, str]:
    return {key: printable(str(info[key])) for key in _VERSIONS if info.get(key)}
