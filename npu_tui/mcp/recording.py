"""The tools that record a job and analyse raw profiles, for sessions that may."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from msgspec import Meta

from npu_tui.mcp.answers import Next, ToolAnswer
from npu_tui.mcp.session import OpenProfiles, ToolCall
from npu_tui.mcp.tools import Arguments, Tool
from npu_tui.record import Progress, RecordClock, RecordError, RecordRequest
from npu_tui.record.outputs import analysed, raw_below
from npu_tui.record.recording import PROFILES, Recorder, RecordingSource
from npu_tui.strings import say, words
from npu_tui.trace.message import message
from npu_tui.trace.text import printable

Folder = Annotated[str, Meta(description="A folder below a root")]


class Record(Arguments, frozen=True, kw_only=True):
    """Record some steps of a running job, wait until they are analysed, and say where the profile lies."""

    path: Annotated[str, Meta(description="The folder, below a root, with the job's profiler_config.json")]
    steps: Annotated[int, Meta(ge=1, le=1_000)] = 5
    warmup: Annotated[int, Meta(ge=0, le=1_000)] = 0
    ranks: Annotated[tuple[int, ...], Meta(description="Only these ranks")] = ()
    at: Annotated[int, Meta(ge=0, description="Begin at this step; 0: the next one")] = 0
    stack: Annotated[bool, Meta(description="With Python call stacks, which name lines of code")] = False
    wait: Annotated[int, Meta(ge=1, le=3_600, description="Give up after so many seconds without news")] = 600


class Analyse(Arguments, frozen=True, kw_only=True):
    """Analyse raw profiles with the profiler that wrote them."""

    path: Folder
    ranks: Annotated[tuple[int, ...], Meta(description="Only these ranks; one alone is there soonest")] = ()


def record_tool(session: OpenProfiles, call: ToolCall, given: Record) -> ToolAnswer:
    """A profile of the running job."""
    folder = session.roots.place(given.path)
    out = session.roots.place(str(folder / PROFILES))
    wanted = RecordRequest(
        out, given.steps, given.warmup, given.ranks, given.at or None, stack=given.stack, patience=float(given.wait)
    )
    recorder = Recorder(RecordingSource(folder), wanted)
    told = _state_texts(recorder.record(RecordClock(call.given_up)))
    newest, before = str(recorder.newest), recorder.before
    follow = [Next("open", {"path": newest})]
    follow += [] if before is None else [Next("compare", {"base": str(before), "new": newest})]
    data = {"profile": printable(newest), "before": None if before is None else printable(str(before)), "states": told}
    return ToolAnswer(verdict=told[-1:], data=data, next=follow)


def analyse_tool(session: OpenProfiles, call: ToolCall, given: Analyse) -> ToolAnswer:
    """Raw profiles, analysed."""
    place = session.roots.place(given.path)
    session.roots.check(place)  # another program reads it
    raws = raw_below(place, given.ranks)
    if not raws:
        raise RecordError(message("record.no_raw", path=str(place)))
    told = _state_texts(analysed(raws, RecordClock(call.given_up)))
    data = {"profiles": [printable(str(raw.folder)) for raw in raws], "states": told}
    return ToolAnswer(verdict=told[-1:], data=data, next=[Next("open", {"path": str(raws[0].folder)})])


def _state_texts(states: Iterator[Progress]) -> list[str]:
    """What ``states`` say, each thing once. Raises ``RecordError``."""
    told: dict[str, str] = {}
    for state in states:
        told[state.said.code] = f"{say(f'record.stage.{state.stage}')}: {words(state.said)}"
    return [*told.values()]


TOOLS: dict[str, Tool] = {
    "record": Tool(Record, record_tool, writes=True),
    "analyse": Tool(Analyse, analyse_tool, writes=True),
}
"""Tools of sessions that may record."""
