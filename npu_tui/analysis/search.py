"""Which slices of a trace match a search, as far as the columns tell."""

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
    Launch,
    LaunchClass,
    Line,
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
from npu_tui.trace.model import HOST_TO_DEVICE, Trace
from npu_tui.trace.once import once

I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_FRAME = re.compile(r"(?P<file>.*)\((?P<line>\d{1,9})\)")
_DEVICE = ("hardware", "communication", "overlap")

_HERE_SECONDS = 0.05
"""So long Python's own engine looks for a pattern, before another one goes on beside the keys."""
_HERE_TRIES = 1e7
"""What it may try in one name at worst, which takes a tenth of a second."""
_PART = re.compile(r"\\(?P<escaped>.)|\[\^?\]?(?:\\.|[^\]])*\]|(?P<sign>.)", re.DOTALL)
_NAMED_OR_PLAIN_GROUP = re.compile(r"\(\?(?::|P<\w+>)")
_FIXED_GROUP = re.compile(r"\([^()|*+?{]*\)")
_LAZY = re.compile(r"(?<=[*+?}])\?")


class Searchable:
    """A trace with its launches, ready to be searched; what a field needs is computed when it is first asked for."""

    def __init__(self, trace: Trace, dispatches: Sequence[Dispatch], steps: Callable[[], Sequence[Step]]) -> None:
        """``steps`` gives all steps of the trace."""
        self.trace = trace
        self._dispatches = dispatches
        self._steps = steps

    def prepare(self) -> None:
        """Compute what ``line:`` and ``step:`` need, which takes longer than a search may."""
        _ = self._stack, self._steps()

    def find(self, search: Search) -> Bools:
        """Which slices match all terms but those about args; (n,). Raises ``SearchError`` for an unusable pattern."""
        found: Bools | None = None
        for term in search.terms:
            own = self._matches(term)
            if own is not None:
                found = own if found is None else found & own
        if found is None:
            return np.full(len(self.trace.slices), bool(search.terms))
        return found

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
        if isinstance(term, Line):
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
            found = _search(names, term)
        elif term.whole:
            found = np.array([term.text == name for name in names], np.bool_)
        else:
            found = np.array([term.text in name for name in names], np.bool_)
        return found if len(found) else np.zeros(1, np.bool_)

    def _lanes(self, term: Place) -> Bools:
        trace = self.trace
        names = [lane.name if term.field == "lane" else trace.layers[lane.layer].name for lane in trace.lanes]
        wanted = [name.lower() == term.text if term.whole else term.text in name.lower() for name in names]
        return np.array([*wanted, False], np.bool_)

    @once
    def _worked(self) -> Bools:
        """Which lanes hold work; those of the overlap analysis only sum up what others hold."""
        trace = self.trace
        return np.array([trace.layers[lane.layer].kind != "overlap" for lane in trace.lanes] + [False], np.bool_)

    def _launched(self, launch: Launch) -> Bools:
        found = np.zeros(len(self.trace.slices), np.bool_)
        for device in self._dispatches:
            mask = {
                "starved": device.starved,
                "near-vertical": device.near_vertical,
                "shallow": device.shallow,
                "queued": device.queued,
            }[launch]
            found[self.trace.links.target_slice[device.link[mask]]] = True
        return found

    @once
    def _stack(self) -> npt.NDArray[np.int32]:
        """The call stack of every slice, its own or that of the operation that it belongs to, -1 without; (n,)."""
        trace = self.trace
        python = np.array([trace.layers[lane.layer].kind == "python" for lane in trace.lanes] + [False])
        found = np.full(len(trace.slices), -1, np.int32)
        host = np.flatnonzero(python[trace.slices.lane])
        found[host] = stack_of(trace, host)
        device = np.flatnonzero(~python[trace.slices.lane])
        operation = operation_of(trace, device)
        # Nearly all operations are on the host, where the stacks are known now.
        found[device] = np.where(operation >= 0, found[operation], -1)
        other = device[(operation >= 0) & ~python[trace.slices.lane[operation]]]
        found[other] = stack_of(trace, operation_of(trace, other))
        launch = trace.links_of(HOST_TO_DEVICE)
        source, target = trace.links.source_slice[launch], trace.links.target_slice[launch]
        bound = (source >= 0) & (target >= 0)
        source, target = source[bound], target[bound]
        bare = found[source] < 0
        found[source[bare]] = found[target[bare]]
        return found

    def _line(self, term: Line) -> Bools:
        wanted = np.array([*(_has_frame(stack, term) for stack in self.trace.stacks), False], np.bool_)
        return np.asarray(wanted[self._stack])

    def _step(self, number: int) -> Bools:
        trace, start = self.trace, self.trace.slices.start
        step = next((step for step in self._steps() if step.number == number), None)
        if step is None:
            return np.zeros(len(trace.slices), np.bool_)
        device = np.array([trace.layers[lane.layer].kind in _DEVICE for lane in trace.lanes] + [False])
        own = trace.slices
        host = (start >= own.start[step.item]) & (start < own.end[step.item])
        there = step.window.holds(start) if step.window is not None else np.zeros(len(start), np.bool_)
        return np.where(device[trace.slices.lane], there, host)


def _has_frame(stack: str, wanted: Line) -> bool:
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
    """In which of ``names`` the pattern of ``term`` is found; (names,)."""
    tries = _tries(term.text)
    if tries is None:
        return _search_beside(names, term)
    found = np.zeros(len(names), np.bool_)
    pattern = re.compile(term.text, re.IGNORECASE if term.any_case else 0)
    until, left = time.monotonic() + _HERE_SECONDS, []
    for at, name in enumerate(names):
        if tries(len(name)) > _HERE_TRIES or time.monotonic() > until:
            left.append(at)
        else:
            found[at] = pattern.search(name) is not None
    if left:
        found[left] = _search_beside([names[at] for at in left], term)
    return found


def _tries(pattern: str) -> Callable[[int], int] | None:
    """How often Python's engine may try at worst, by the length of a name: each repetition anywhere, each choice twice.

    None where it may be worse (a repeated group) or the other engine knows no such thing (look-around, references).
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
        found = polars.Series(names, dtype=polars.String).str.contains(flags + term.text)
    except polars.exceptions.ComputeError:
        raise SearchError(say("query.pattern_kind")) from None
    return found.to_numpy().astype(np.bool_)
