"""The lines above the lanes: header, verdict, bars of steps and devices."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from rich.console import Console
from rich.text import Text
from textual.geometry import Size
from textual.widgets import Static

from npu_tui.analysis.launches import Dispatch
from npu_tui.analysis.overlap import Overlap
from npu_tui.analysis.steps import Step, StepSums
from npu_tui.load.find import Source
from npu_tui.profile.profile import Profile
from npu_tui.rules.model import Findings
from npu_tui.strings import say, words
from npu_tui.trace.classes import OpClass
from npu_tui.trace.message import Said
from npu_tui.trace.model import Trace
from npu_tui.trace.text import brief, cell_count, duration_text, printable, shortened
from npu_tui.tui.first_picture import BARS_FROM, verdict_lines, verdict_rows
from npu_tui.tui.footer import Place, footer, led
from npu_tui.tui.session import Session
from npu_tui.tui.terminal.internals import after
from npu_tui.tui.terminal.theme import ALERT, class_colour
from npu_tui.view.explorer import Explorer

_NARROWEST = 4
"""Cells that words are broken to at least; narrower ones are cut."""


class Verdict(Static):
    """One line per leading finding, as many as ``room`` allows."""

    DEFAULT_CSS = """
    Verdict { height: 1; background: $panel; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
    Verdict.-hidden { display: none; }
    """

    def __init__(self) -> None:
        super().__init__(classes="-hidden")
        self._shown: tuple[object, ...] | None = None

    def show(self, found: Findings | None, room: int, width: int, most: int, meanwhile: str = "") -> None:
        """Show the verdict of ``found`` (None: not known yet, then ``meanwhile``) in at most ``most`` lines.

        Where ``room`` is for one line only, or one is all there is, and ``width`` cells cut it, it takes all of them.
        """
        if (id(found), room, width, most) == self._shown:
            return
        self._shown = id(found), room, width, most
        self.set_class(most == 0, "-hidden")
        if found is None:
            lines = [Text(meanwhile or say("findings.examining"), "dim")]
        else:
            leading = [each for each in found.findings if each.step_after_ns is not None and each.part_of is None]
            grave = [each.severity == "high" for each in leading]
            lines = [
                _line(number, words(said), number <= len(grave) and grave[number - 1]) if leading else _plain(said)
                for number, said in enumerate(found.verdict, 1)
            ]
        if (room == 1 or len(lines) == 1) and most > 1 and lines and lines[0].cell_len > width - 2:
            lines = _broken(self.app.console, lines[0], max(width - 2, _NARROWEST), most)
        # What is not known yet keeps the room of what will be said, so that the lanes do not jump.
        self.styles.height = max(most if found is None else min(most, len(lines)), 1)
        self.update(Text("\n").join(lines[:most]))


def _broken(console: Console, line: Text, width: int, most: int) -> list[Text]:
    """``line`` on at most ``most`` lines of ``width`` cells; further lines begin below the text after the number."""
    indent = "  " if line.plain[:1].isdigit() else ""
    parts = list(line.wrap(console, width - len(indent), no_wrap=False))
    for part in parts:
        part.rstrip()
    parts = [*parts[: most - 1], Text(" ").join(parts[most - 1 :])] if len(parts) >= most else parts
    return [Text.assemble(indent if number else "", part, no_wrap=True, end="") for number, part in enumerate(parts)]


def _plain(said: Said) -> Text:
    """What is no step of the work has no number."""
    return Text(words(said), "bold", no_wrap=True, end="")


def _line(number: int, told: str, grave: bool) -> Text:
    head, colon, rest = told.partition(":" if ":" in told.partition("：")[0] else "：")  # Chinese has one of its own
    style = f"bold {ALERT}" if grave else "bold"
    return Text.assemble((f"{number} ", style), (head + colon, style), rest, no_wrap=True, end="")


_FILLS = {"prep": "·", "compute": "█", "exposed": "▒", "free": "╱"}
_CLASSES = {
    "prep": OpClass.STEP,
    "compute": OpClass.CUBE,
    "exposed": OpClass.COMMUNICATION,
    "free": OpClass.WAIT,
}


class DeviceTimes(Struct, frozen=True):
    """One device of a trace: its whole ``overlap``, and the sums of each step."""

    device: int | None
    overlap: Overlap
    sums: list[StepSums]


class Times(Struct, frozen=True, dict=True):
    """The steps of a trace, and what its devices did in them."""

    steps: list[Step]
    devices: list[DeviceTimes]

    @cached_property
    def items(self) -> npt.NDArray[np.int64]:
        """The slice of each step."""
        return np.array([step.item for step in self.steps], np.int64)


def measure(profile: Profile) -> Times:
    """The times that the lines show."""
    sums = zip(profile.overlaps, profile.sums_by_device, strict=True)
    return Times(profile.steps, [DeviceTimes(overlap.device, overlap, steps) for overlap, steps in sums])


def nearest_step(trace: Trace, times: Times, when: int) -> int:
    """Which of the steps holds ``when`` ns, else the nearest one."""
    slices = trace.slices
    items = times.items
    if items[0] < 0:
        return 0
    return int(np.maximum(np.maximum(slices.start[items] - when, when - slices.end[items]), 0).argmin())


def step_line(trace: Trace, times: Times, step: int, device: int, width: int) -> Text | None:
    """Shares of one step as a bar of ``width`` cells; None where the trace has no step or no device."""
    item = times.steps[step].item
    if item < 0 or not times.devices:
        return None
    length = int(trace.slices.end[item] - trace.slices.start[item])
    sums = times.devices[device].sums[step]
    parts = [
        ("prep", sums.preparing),
        ("compute", sums.overlap.computing),
        ("exposed", sums.overlap.not_overlapped),
        ("free", sums.overlap.free),
    ]
    known = [(key, value) for key, value in parts if value is not None and value > 0]
    # A device that is behind works on a step after it has ended on the host.
    whole = max(length, sum(value for _, value in known), 1)
    words = say("bars.step", step=brief(times.steps[step].name or ""), length=duration_text(length))
    if whole > length:
        words = say("bars.step.longer", step=words, whole=duration_text(whole))
    line = Text(f"{words} ", style="bold", no_wrap=True, end="")
    room = width - line.cell_len
    done = 0
    for key, value in known:
        begin, done = done * room // whole, done + value
        line.append_text(_segment(key, value / whole, done * room // whole - begin))
    return line


def _segment(key: str, share: float, cells: int) -> Text:
    """A part of the bar: its fill, on both sides of as much of its label as there is room for."""
    style = class_colour(_CLASSES[key])
    for label in (say(f"bars.{key}", share=f"{share:.1%}"), f"{share:.1%}", f"{share:.0%}"):
        for gap in (" ", ""):
            rest = cells - cell_count(label) - 2 * len(gap) - 1
            if rest > 0:
                fill = _FILLS[key]
                return Text.assemble((fill, style), (f"{gap}{label}{gap}", "bold"), (fill * rest, style), end="")
    return Text(_FILLS[key] * max(cells, 0), style=style, end="")


def device_line(times: Times, step: int, device: int) -> Text | None:
    """The whole time of one device in words, each with the fill it has in the bar above; None without one."""
    if not times.devices or not times.devices[device].overlap.total:
        return None
    shown = times.devices[device]
    overlap, preparing = shown.overlap, shown.sums[step].preparing
    name = say("bars.device")
    if len(times.devices) > 1 and shown.device is not None:
        name = say("bars.device.number", device=shown.device)
    line = Text(no_wrap=True, end="")
    line.append(say("bars.whole", name=name, time=overlap.total), style="bold")
    for key, part in (("compute", overlap.computing), ("exposed", overlap.not_overlapped), ("free", overlap.free)):
        line.append("  ")
        line.append(_FILLS[key], style=class_colour(_CLASSES[key]))
        line.append(f" {say(f'bars.{key}', share=f'{overlap.ratio(part):.1%}')}")
    if preparing is not None and preparing > 0:
        line.append("  ")
        line.append(_FILLS["prep"], style=class_colour(_CLASSES["prep"]))
        line.append(f" {say('bars.before', time=duration_text(preparing))}", style="dim")
    return line


class Bars(Static):
    """The step line and the device line."""

    DEFAULT_CSS = """
    Bars { height: 2; background: $panel; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
    Bars.-hidden { display: none; }
    """

    def __init__(self) -> None:
        super().__init__(classes="-hidden")
        self._times: dict[int, Times] = {}
        self._text: Text | None = None

    def learn(self, index: int, times: Times) -> None:
        """Take the times of trace number ``index``."""
        self._times[index] = times

    def show(self, traces: list[Trace], index: int, when: int, device: int | None, width: int) -> bool:
        """Show the step at ``when`` ns of a trace and what ``device`` did (its first one where it has no such).

        Returns whether there is anything to show on ``width`` columns.
        """
        times = self._times.get(index)
        lines: list[Text | None] = []
        if times is not None:
            at = next((i for i, each in enumerate(times.devices) if each.device == device), 0)
            step = nearest_step(traces[index], times, when)
            lines = [step_line(traces[index], times, step, at, width - 2), device_line(times, step, at)]
        shown = [line for line in lines if line is not None]
        text = Text("\n").join(shown)
        if text != self._text or self.has_class("-hidden"):
            self._text = text
            self.styles.height = max(len(shown), 1)
            self.update(text)
        self.set_class(not shown, "-hidden")
        return bool(shown)


_GAP = "  │  "
_MESSAGE_SECONDS = 6.0
_LEAST_PATH = 12
_EVERYWHERE = frozenset({"ASCEND_PROFILER_OUTPUT", "trace_view.json", "trace_view.json.gz"})
_ALERT_SHARE = 0.01
"""Lost time is said in red from this share of the trace on; single starved launches are in every trace."""


def headline(session: Session, trace: int, with_shares: bool) -> list[list[Text]]:
    """The parts of the top line in the order of their worth: rank, dispatch, overlap (``with_shares``), form and path.

    All but the last have shorter forms.
    """
    profile = session.profiles[trace]
    shown = profile.trace
    devices = profile.dispatch
    rank = say("header.no_rank") if len(devices) < 2 else say("header.devices", count=len(devices))
    parts = [[Text(rank if shown.rank is None else say("header.rank", rank=shown.rank), style="bold")]]
    parts += [_dispatch(device, len(devices) > 1, shown.end) for device in devices]
    if session.is_tables:
        parts.append([Text(say("header.only_memory" if session.scene.end else "header.no_timeline"))])
    elif not devices:
        parts.append([Text(say("header.no_dispatch" if session.whole else "header.loading"), style="dim")])
    for device in profile.overlaps if with_shares else []:
        if device.total:
            shares = (("compute", device.computing), ("exposed", device.not_overlapped), ("free", device.free))
            words = [say(f"header.{key}", share=f"{device.ratio(part):.1%}") for key, part in shares]
            name = _name(device.device) if len(devices) > 1 else ""
            parts.append([Text(name + "  ".join(words)), Text(name + words[-1])])
    parts.append([Text(_form(profile.source)), Text(printable(profile_name(shown.path)))])
    return parts


def _form(source: Source | None) -> str:
    """Which form of a profile is shown, where that is not plain: a text is, unless a database lies beside it."""
    if source is None or (source.kind != "database" and source.twin is None):
        return ""
    return say("header.database" if source.kind == "database" else "header.text") + ": "


def _name(device: int | None) -> str:
    return say("header.of_device", device=device, words="") if device is not None else ""


def _dispatch(device: Dispatch, named: bool, end: int) -> list[Text]:
    """What the launches of ``device`` cost; red where that is a share of the trace worth a look."""
    lost = float(device.lost.sum())
    prefix = _name(device.device) if named else ""
    near = say("header.near", near=int(device.near_vertical.sum()), links=len(device.link))
    cost = say("header.lost", starved=int(device.starved.sum()), lost=lost)
    alert = f"bold {ALERT}" if lost >= _ALERT_SHARE * end else ""
    return [Text.assemble(f"{prefix}{near}{say('list.comma')}", (cost, alert)), Text.assemble(prefix, (cost, alert))]


def profile_name(path: str) -> str:
    """The path of a trace without the folders and names that every profile has."""
    folders = path.split("/")
    while len(folders) > 1 and folders[-1] in _EVERYWHERE:
        folders.pop()
    return "/".join(folders)


class Headline(Static):
    """Shows as many parts of the headline as fit."""

    DEFAULT_CSS = (
        "Headline { height: 1; background: $panel; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }"
    )

    def __init__(self) -> None:
        super().__init__()
        self._line: Text | None = None

    def show(self, session: Session, trace: int, width: int, shares: bool = True) -> None:
        """Fill the line for ``width`` columns, with the ``shares`` of the device's time; the path is cut in front."""
        line = Text(no_wrap=True)
        parts = headline(session, trace, shares)
        for forms in parts[:-1]:
            gap = _GAP if line.plain else ""
            room = width - 2 - line.cell_len - len(gap)
            part = next((form for form in forms if form.cell_len <= room), None)
            if part is None:
                continue
            line.append(gap, style="dim")
            line.append_text(part)
        form, path = (part.plain for part in parts[-1])
        room = width - 2 - line.cell_len - len(_GAP) - len(form)
        if room >= _LEAST_PATH:
            line.append(f"{_GAP}{form}{shortened(path, room, ahead=True)}", style="dim")
        elif form and room >= -2:  # the colon and the blank after the form need no room
            line.append(f"{_GAP}{form.rstrip(': ')}", style="dim")
        if line != self._line:
            self._line = line
            self.update(line, layout=False)


class StatusLine(Static):
    """The keys that matter, or for a few seconds what the last one did."""

    DEFAULT_CSS = """
    StatusLine {
        height: 1; dock: bottom; padding: 0 1; color: $text-muted; text-wrap: nowrap; text-overflow: ellipsis;
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._turn = 0
        self._speaking = False
        self.leads: list[str] = []
        self._held = ""
        self._place: Place = "lanes"

    def on_resize(self) -> None:
        """Show as many keys as fit."""
        if not self._speaking:
            self._show()

    def hold(self, words: str) -> None:
        """Show ``words`` where the keys stand, until there are none."""
        self._held = words
        if not self._speaking:
            self._show()

    def _show(self) -> None:
        if self._held:
            line = Text(printable(self._held))
        elif self.leads:
            line = led(self.leads, self.size.width)
        else:
            line = footer(self._place, self.size.width)
        self.update(line, layout=False)

    def show_place(self, place: Place) -> None:
        """Show the keys that count where the focus is now."""
        if place != self._place:
            self._place = place
            if not self._speaking:
                self._show()

    def show_keys(self, anew: bool = False) -> None:
        """Show the keys, or what leads on if there is such, where a message stands; ``anew`` also where none does."""
        if self._speaking or anew:
            self._speaking = False
            self._show()

    def holds(self, words: str) -> bool:
        """Whether there is room for ``words``."""
        return cell_count(printable(words)) + 2 <= self.app.size.width

    def say(self, words: str) -> None:
        """Show ``words`` for a while."""
        self._turn += 1
        self._speaking = True
        turn = self._turn
        self.update(Text(printable(words), style="bold"), layout=False)
        after(_MESSAGE_SECONDS, self, lambda: self._back(turn))

    def _back(self, turn: int) -> None:
        if turn == self._turn:
            self.show_keys()


class Head:
    """The widgets above the lanes; ``examined`` counts the traces whose findings are there."""

    def __init__(self) -> None:
        self.headline = Headline()
        self.verdict = Verdict()
        self.bars = Bars()
        self.examined = 0

    def show(self, session: Session, explorer: Explorer, size: Size, with_panel: bool = False) -> None:
        """The step and device under the cursor, in bars where a terminal of ``size`` has room for them.

        ``with_panel`` says whether the panel is on screen, too.
        """
        focused, traces = explorer.focused, session.scene.traces
        index = focused.trace if focused is not None else 0
        device = traces[index].layers[focused.layer].device if focused is not None and focused.layer >= 0 else None
        shown = False
        if size.height >= BARS_FROM:
            cursor = session.scene.to_trace(index, explorer.state.cursor) if traces else 0
            shown = self.bars.show(traces, index, cursor, device, size.width)
        else:
            self.bars.add_class("-hidden")
        self.headline.show(session, index, size.width, not shown)
        most = verdict_lines(size.height, with_panel)
        found = session.findings.get(index)
        meanwhile = session.examining(index) if found is None else ""
        self.verdict.show(found, verdict_rows(size.height), size.width, most, meanwhile)


_LEADS = ("finding_next", "starved_next")


class FirstRun:
    """``seen`` is the file that remembers that the line has done its work."""

    def __init__(self, seen: Path) -> None:
        self._seen = seen
        self._line: StatusLine | None = None

    def show(self, line: StatusLine, session: Session) -> None:
        """Put the line in place of the keys."""
        if os.path.exists(self._seen):  # False where it may not be looked for
            return
        starved = sum(len(profile.starved) for profile in session.profiles)
        lead = "starved" if starved else "finding"
        self._line = line
        line.leads = [say(f"first.{form}", count=starved) for form in (lead, f"{lead}.short")]
        line.show_keys(True)

    def used(self, command: str) -> None:
        """Take the line away once ``command`` was what it leads to, or the user sends it away."""
        if self._line is None or command not in (*_LEADS, "escape", "help"):
            return
        self._line.leads = []
        self._line = None
        if command in _LEADS:
            with suppress(OSError):
                self._seen.parent.mkdir(parents=True, exist_ok=True)
                self._seen.touch()
