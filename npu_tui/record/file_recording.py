"""Records by the file switch of a job that trains: torch_npu and MindSpore."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from npu_tui.record import POLL, Deadline, Progress, RecordClock, RecordError, RecordRequest, surely, unreadable
from npu_tui.record.outputs import ENDED, Followed, Output, State, StepMarks, last_size, outputs_below
from npu_tui.record.switch import NAME, Switch, TorchJob, foreign, has_ended
from npu_tui.trace.message import Message, message

# A recording is refused where its estimate leaves less than a fifth of it free: an analysis makes files beside it.
_SPARE = 1.2
# A profile of MindSpore, with the host and the process that records it.
_OF_PROCESS = re.compile(r"(.+)_(\d{1,9})_\d{14,17}_ascend_ms")
_STRAGGLERS = 20.0  # seconds after which ranks that have not begun a step with the others record none


def record_by_file(folder: Path, wanted: RecordRequest, clock: RecordClock) -> Iterator[Progress]:
    """Record the job that watches ``folder``: each state once it is there, the complete profiles last.

    The switch is off afterwards, also where the iterator is closed early. Raises ``RecordError``, ``StoppedError``.
    """
    job = job_of(folder)
    switch = Switch(folder)
    ranks = _ranks_of(job, wanted)
    try:
        made = [path for path in (wanted.out, *wanted.out.parents) if not path.exists()]
        wanted.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unreadable(wanted.out, error) from error
    switch.give(made)
    size = _size_of(wanted, len(ranks))
    known = {output.folder for output in outputs_below(wanted.out)}
    steps, recorded = _Steps(wanted, known), False
    try:
        switch.on(wanted)
        code = "record.asked" if size is None else "record.asked_sized"
        yield Progress("waiting", message(code, path=str(switch.path), size=size))
        if job is None:
            yield from _follow_folders(steps, clock)
        else:
            yield from _follow_logs(job, steps, ranks, clock)
        recorded = True
    finally:
        surely(lambda: switch.off(recorded))
    yield from followed(wanted, known, len(ranks), clock)


def job_of(folder: Path) -> TorchJob | None:
    """The job that watches ``folder``; None for one of MindSpore, which writes no logs. Raises ``RecordError``."""
    if not folder.is_dir():
        raise RecordError(message("record.no_folder", folder=str(folder)))
    if not os.access(folder, os.R_OK | os.X_OK):
        raise RecordError(foreign(folder))
    if (folder / NAME).exists() and Switch(folder).framework == "mindspore":
        return None
    return TorchJob(folder)


def _ranks_of(job: TorchJob | None, wanted: RecordRequest) -> set[int]:
    """The ranks that will record. Raises ``RecordError`` where one that is asked for does not run."""
    if job is None:
        return set(wanted.ranks)
    running = job.ranks
    absent = sorted(set(wanted.ranks) - running)
    if absent:
        raise RecordError(message("record.no_rank", ranks=absent, running=sorted(running)[:16]))
    if wanted.at is not None and wanted.at <= job.last_step:
        raise RecordError(message("record.past", step=wanted.at, last=job.last_step))
    return set(wanted.ranks) or running


def _size_of(wanted: RecordRequest, ranks: int) -> int | None:
    """Bytes that it will take by the last recording, None without one. Raises ``RecordError`` without room for it."""
    last = last_size(wanted.out.parent)
    if last is None:
        return None
    needed, free = last.of(max(ranks, 1), wanted.steps), shutil.disk_usage(wanted.out).free
    if needed * _SPARE > free:
        raise RecordError(message("record.no_room", folder=str(wanted.out), needed=needed, free=free))
    return needed


class _Steps:
    """The steps of the recording that is ``wanted``, as far as the raw data of its profiles show them.

    Its profiles are those below the folder of the recording that are not ``known``.
    """

    def __init__(self, wanted: RecordRequest, known: set[Path]) -> None:
        self.wanted, self._known = wanted, known
        self._marks: dict[Path, StepMarks] = {}
        self._over = 0

    @property
    def profiles(self) -> list[Output]:
        """The profiles of the recording that have been begun so far."""
        return new_outputs(self.wanted.out, self._known)

    def news(self, count: int) -> Iterator[Progress]:
        """Each step that ``count`` ranks have reached (0: all that record), once; nothing if steps are unknown."""
        for output in self.profiles:
            self._marks.setdefault(output.folder, StepMarks(output.folder))
        if not self._marks or len(self._marks) < count:
            return
        over = min(marks.over() for marks in self._marks.values())
        if self._over < over < self.wanted.steps:
            self._over = over
            yield Progress("recording", message("record.step", step=over + 1, steps=self.wanted.steps, over=over,
                                                ranks=len(self._marks)))  # fmt: skip


def _follow_logs(job: TorchJob, steps: _Steps, ranks: set[int], clock: RecordClock) -> Iterator[Progress]:
    """The progress from the switch until the ``ranks`` have recorded, by their logs."""
    wanted = steps.wanted
    deadline, late = Deadline(clock, wanted.patience), Deadline(clock, _STRAGGLERS)
    read, started, stopped = False, dict[int, int](), set[int]()
    while not (started and stopped >= started.keys() and (started.keys() >= ranks or late.is_over)):
        clock.wait(POLL)
        for each in job.news():
            deadline.renew()
            if each.event == "unreadable":
                raise RecordError(message("record.not_understood", path=str(job.folder / NAME)))
            if each.event == "too_old" and wanted.at is None:
                raise RecordError(message("record.too_old"))
            if each.event == "read" and not read:
                read = True
                yield Progress("waiting", _waiting_message(wanted))
            if each.event == "started" and each.step is not None:
                late.renew()
                started[each.rank] = each.step
                yield Progress("recording", message("record.recording", steps=wanted.steps, warmup=wanted.warmup,
                                                    first=each.step, ranks=len(started), of=len(ranks)))  # fmt: skip
            if each.event == "stopped":
                stopped.add(each.rank)
        for progress in steps.news(len(started)):
            deadline.renew()
            yield progress
        if job.has_ended:
            raise RecordError(message("record.ended_meanwhile", folder=str(job.folder)))
        if deadline.is_over:
            raise RecordError(_why_nothing(job.folder / NAME, wanted, read, bool(started), deadline.seconds))
    if missing := sorted(ranks - started.keys()):
        yield Progress("recording", message("record.some_missing", ranks=missing))


def _waiting_message(wanted: RecordRequest) -> Message:
    return message("record.waits_next") if wanted.at is None else message("record.waits_at", step=wanted.at)


def _why_nothing(switch: Path, wanted: RecordRequest, read: bool, begun: bool, seconds: float) -> Message:
    args: dict[str, object] = {"waited": seconds * 1e9, "path": str(switch)}
    if begun:
        return message("record.not_stopped", **args)
    if not read:
        return message("record.not_read", **args)
    return message("record.no_step", **args) if wanted.at is None else message("record.not_at", step=wanted.at, **args)


def _follow_folders(steps: _Steps, clock: RecordClock) -> Iterator[Progress]:
    """The progress from the switch until all profiles begun are recorded, by their folders: MindSpore writes no log."""
    wanted = steps.wanted
    deadline, begun = Deadline(clock, wanted.patience), False
    yield Progress("waiting", _waiting_message(wanted))
    while True:
        clock.wait(POLL)
        profiles = steps.profiles
        if profiles and not begun:
            begun = True
            deadline.renew()
            yield Progress("recording", message("record.recording_at", steps=wanted.steps, first=wanted.at))
        awaited = [output.folder for output in profiles if output.info is None]
        if begun and not awaited:
            return
        for progress in steps.news(0):
            deadline.renew()
            yield progress
        if lost := list(filter(_is_left_behind, awaited)):
            raise RecordError(message("record.broken", path=str(lost[0]), count=len(lost), of=len(profiles)), lost)
        if deadline.is_over:
            raise RecordError(_why_nothing(Path(NAME), wanted, True, begun, deadline.seconds))


def _is_left_behind(folder: Path) -> bool:
    """Whether the process that records into ``folder`` has ended for certain."""
    named = _OF_PROCESS.fullmatch(folder.name)
    return named is not None and has_ended(named[1], int(named[2]))


def new_outputs(folder: Path, known: set[Path]) -> list[Output]:
    """The profiles below ``folder`` that are not ``known``."""
    return [output for output in outputs_below(folder) if output.folder not in known]


def followed(wanted: RecordRequest, known: set[Path], count: int, clock: RecordClock) -> Iterator[Progress]:
    """Follow a recording from its end until the profiles of ``count`` ranks are analysed; 0: of all that appear.

    Profiles in the folders ``known`` are not its own. The last progress is ``complete``, or ``raw`` where the profiles
    are there and nothing analyses them. Raises ``RecordError``, ``StoppedError``.
    """
    deadline = Deadline(clock, wanted.patience)
    profiles: dict[Path, Followed] = {}
    told = None
    while True:
        for output in new_outputs(wanted.out, known):
            if output.folder not in profiles:
                profiles[output.folder] = Followed(output, clock.now())
                deadline.renew()
        now = clock.now()
        states = {path: profile.state(now) for path, profile in profiles.items()}
        if len(profiles) >= max(count, 1) and ENDED.issuperset(states.values()):
            break
        unchanged = min((profile.unchanged(now) for profile in profiles.values()), default=0.0)
        if unchanged >= wanted.analysis:
            raise RecordError(message("record.stuck", waited=unchanged * 1e9, path=str(next(iter(profiles)))), profiles)
        if len(profiles) < max(count, 1) and deadline.is_over:
            if profiles:
                break
            raise RecordError(message("record.nothing_written", folder=str(wanted.out), waited=deadline.seconds * 1e9))
        if profiles and (line := _progress_line(profiles, states)) != told:
            told = line
            yield line
        clock.wait(POLL)
    yield _recording_end(profiles, states)


def _progress_line(profiles: dict[Path, Followed], states: dict[Path, State]) -> Progress:
    size = sum(profile.seen.bytes for profile in profiles.values())
    reached, done = set(states.values()), sum(state == "complete" for state in states.values())
    if "recording" in reached:
        return Progress("recording", message("record.writing", count=len(states), size=size))
    if reached == {"written"}:
        return Progress("raw", message("record.written", count=len(states), size=size))
    return Progress("analysing", message("record.analysing", done=done, count=len(states), size=size))


def _recording_end(profiles: dict[Path, Followed], states: dict[Path, State]) -> Progress:
    """The last progress of ``profiles``, by their states. Raises ``RecordError`` where one is lost."""
    by_state: dict[State, list[Path]] = {}
    for path, state in states.items():
        by_state.setdefault(state, []).append(path)
    for state in ("broken", "failed"):
        if lost := by_state.get(state):
            code = "record.broken" if state == "broken" else "record.failed"
            raise RecordError(message(code, path=str(lost[0]), count=len(lost), of=len(states)), lost)
    if raw := by_state.get("raw"):
        size = sum(profiles[path].seen.bytes for path in raw)
        return Progress("raw", message("record.raw", count=len(raw), size=size), tuple(raw))
    return Progress("complete", message("record.complete", count=len(states)), tuple(by_state.get("complete", ())))
