"""Finds the slices of a trace that match a search, by its columns; terms about args are left to ``ArgReader.scan``."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from npu_tui.analysis.code_lines import stack_of
from npu_tui.analysis.launches import Dispatch, operation_of
from npu_tui.analysis.search_language import (
    Compare,
    FrameTerm,
    Launch,
    LaunchClass,
    Place,
    Search,
    SearchError,
    SliceClass,
    StepNumber,
    Term,
    Text,
    Time,
)
from npu_tui.analysis.steps import Step
from npu_tui.strings import say
from npu_tui.trace.arrays import I64, Bools
from npu_tui.trace.kineto import launch_links
from npu_tui.trace.model import Trace
from npu_tui.trace.once import once

_FRAME = re.compile(r"(?P<file>.*)\((?P<line>\d{1,9})\)")
_DEVICE = ("hardware", "communication", "overlap")

# How long Python's engine searches for a pattern before polars, which releases the interpreter's lock, takes over.
_HERE_SECONDS = 0.05
_HERE_TRIES = 1e7  # steps that Python's engine may need for one name in the worst case: a tenth of a second
_PART = re.compile(r"\\(?P<escaped>.)|\[\^?\]?(?:\\.|[^\]])*\]|(?P<sign>.)", re.DOTALL)
_NAMED_OR_PLAIN_GROUP = re.compile(r"\(\?(?::|P<\w+>)")
_FIXED_GROUP = re.compile(r"\([^()|*+?{]*\)")
_LAZY = re.compile(r"(?<=[*+?}])\?")


class Searchable:
    """A trace with its launches, ready to be searched; the data of a field is computed at its first use."""

    def __init__(self, trace: Trace, dispatches: Sequence[Dispatch], steps: Callable[[], Sequence[Step]]) -> None:
        """``steps`` gives all steps of the trace."""
        self.trace = trace
        self._dispatches = dispatches
        self._steps = steps

    def prepare(self) -> None:
        """Compute the data of ``line:`` and ``step:``, which takes longer than a search should."""
        _ = self._stack, self._steps()

    def find(self, search: Search) -> Bools:
        """Which slices match all terms but those about args; (n,). Raises ``SearchError`` for an unusable pattern."""
        mask: Bools | None = None
        for term in search.terms:
            matches = self._matches(term)
            if matches is not None:
                mask = matches if mask is None else mask & matches
        if mask is None:
            return np.full(len(self.trace.slices), bool(search.terms))
        return mask

    def _matches(self, term: Term) -> Bools | None:
        slices = self.trace.slices
        if isinstance(term, Text):
            return self._names(term)[slices.name]
        if isinstance(term, Time):
            value = {"start": slices.start, "end": slices.end}.get(term.field)
            return _compared(slices.end - slices.start if value is None else value, term.sign, term.value)
        if isinstance(term, Place):
            return self._lanes(term)[slices.lane]
        if isinstance(term, LaunchClass):
            return self._launched(term.launch)
        if isinstance(term, SliceClass):
            return np.asarray((slices.op_class == term.op_class) & self._worked[slices.lane])
        if isinstance(term, FrameTerm):
            return self._line(term)
        if isinstance(term, StepNumber):
            return self._step(term.number)
        return None

    @once
    def _lowered(self) -> list[str]:
        return [name.lower() for name in self.trace.names]

    def _names(self, term: Text) -> Bools:
        names = self._lowered if term.any_case and not term.pattern else self.trace.names
        if term.pattern:
            mask = _search(names, term)
        elif term.whole:
            mask = np.array([term.text == name for name in names], np.bool_)
        else:
            mask = np.array([term.text in name for name in names], np.bool_)
        return mask if len(mask) else np.zeros(1, np.bool_)

    def _lanes(self, term: Place) -> Bools:
        trace = self.trace
        names = [lane.name if term.field == "lane" else trace.layers[lane.layer].name for lane in trace.lanes]
        wanted = [name.lower() == term.text if term.whole else term.text in name.lower() for name in names]
        return np.array([*wanted, False], np.bool_)

    @once
    def _worked(self) -> Bools:
        """Which lanes hold work; those of the Overlap Analysis only repeat the time of others."""
        trace = self.trace
        return np.array([trace.layers[lane.layer].kind != "overlap" for lane in trace.lanes] + [False], np.bool_)

    def _launched(self, launch: Launch) -> Bools:
        matches = np.zeros(len(self.trace.slices), np.bool_)
        for device in self._dispatches:
            of_class = {
                "starved": device.starved,
                "near-vertical": device.near_vertical,
                "shallow": device.shallow,
                "queued": device.queued,
            }[launch]
            matches[self.trace.links.target_slice[device.link[of_class]]] = True
        return matches

    @once
    def _stack(self) -> npt.NDArray[np.int32]:
        """The call stack of every slice, that of its operation where it has none, -1 without; (n,)."""
        trace = self.trace
        python = np.array([trace.layers[lane.layer].kind == "python" for lane in trace.lanes] + [False])
        stacks = np.full(len(trace.slices), -1, np.int32)
        host = np.flatnonzero(python[trace.slices.lane])
        stacks[host] = stack_of(trace, host)
        device = np.flatnonzero(~python[trace.slices.lane])
        operation = operation_of(trace, device)
        # Nearly all operations are on the host, where the stacks are known now.
        stacks[device] = np.where(operation >= 0, stacks[operation], -1)
        other = device[(operation >= 0) & ~python[trace.slices.lane[operation]]]
        stacks[other] = stack_of(trace, operation_of(trace, other))
        launch = launch_links(trace)
        source, target = trace.links.source_slice[launch], trace.links.target_slice[launch]
        bound = (source >= 0) & (target >= 0)
        source, target = source[bound], target[bound]
        without_stack = stacks[source] < 0
        stacks[source[without_stack]] = stacks[target[without_stack]]
        return stacks

    def _line(self, term: FrameTerm) -> Bools:
        wanted = np.array([*(_has_frame(stack, term) for stack in self.trace.stacks), False], np.bool_)
        return np.asarray(wanted[self._stack])

    def _step(self, number: int) -> Bools:
        trace, start = self.trace, self.trace.slices.start
        step = next((step for step in self._steps() if step.number == number), None)
        if step is None:
            return np.zeros(len(trace.slices), np.bool_)
        device = np.array([trace.layers[lane.layer].kind in _DEVICE for lane in trace.lanes] + [False])
        slices = trace.slices
        host = (start >= slices.start[step.item]) & (start < slices.end[step.item])
        on_device = step.window.holds(start) if step.window is not None else np.zeros(len(start), np.bool_)
        return np.where(device[trace.slices.lane], on_device, host)


def _has_frame(stack: str, wanted: FrameTerm) -> bool:
    for frame in stack.split(";"):
        match = _FRAME.match(frame.lstrip())
        if match is None or (wanted.line is not None and int(match["line"]) != wanted.line):
            continue
        file = match["file"]
        if not wanted.file or file == wanted.file or file.endswith(("/" + wanted.file, "\\" + wanted.file)):
            return True
    return False


def _compared(values: I64, sign: Compare, value: int) -> Bools:
    if sign == "<":
        return np.asarray(values < value)
    if sign == "<=":
        return np.asarray(values <= value)
    if sign == ">":
        return np.asarray(values > value)
    return np.asarray(values >= value if sign == ">=" else values == value)


def _search(names: list[str], term: Text) -> Bools:
    """Which of ``names`` the pattern of ``term`` matches; (names,)."""
    tries = _tries(term.text)
    if tries is None:
        return _search_beside(names, term)
    mask = np.zeros(len(names), np.bool_)
    pattern = re.compile(term.text, re.IGNORECASE if term.any_case else 0)
    until, slow = time.monotonic() + _HERE_SECONDS, []
    for at, name in enumerate(names):
        if tries(len(name)) > _HERE_TRIES or time.monotonic() > until:
            slow.append(at)
        else:
            mask[at] = pattern.search(name) is not None
    if slow:
        mask[slow] = _search_beside([names[at] for at in slow], term)
    return mask


def _tries(pattern: str) -> Callable[[int], int] | None:
    """The steps of Python's engine in the worst case, as a function of the length of a name.

    Each repetition multiplies them by the length, each choice by two: ``a.*b|c`` takes up to 2 · length². None for
    patterns that may be exponential (a repeated group) and for those that only Python supports (look-around,
    references), which ``_search_beside`` reports.
    """
    parts = list(_PART.finditer(pattern))
    plain = "".join(part["sign"] or "x" for part in parts)
    plain = _FIXED_GROUP.sub("x", _LAZY.sub("", _NAMED_OR_PLAIN_GROUP.sub("(", plain)))
    refers = any((part["escaped"] or "") in tuple("123456789") for part in parts)
    if refers or "(?" in plain or any(f"){sign}" in plain for sign in "*+?{"):
        return None
    power, choices = 1 + sum(plain.count(sign) for sign in "*+?{"), plain.count("|")
    return lambda length: length**power << choices


def _search_beside(names: list[str], term: Text) -> Bools:
    # A pattern that backtracks would stop the whole program: this engine takes linear time and runs beside it, but
    # its import takes longer than a search may.
    import polars

    flags = "(?i)" if term.any_case else ""
    try:
        mask = polars.Series(names, dtype=polars.String).str.contains(flags + term.text)
    except polars.exceptions.ComputeError:
        raise SearchError(say("query.pattern_kind")) from None
    return mask.to_numpy().astype(np.bool_)
