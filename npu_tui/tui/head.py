"""The lines above the lanes: header, verdict, bars of steps and devices."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from rich.console import Console
from rich.text import Text
from textual.geometry import Size
from textual.widgets import Static

from npu_tui.analysis.overlap import Overlap
from npu_tui.analysis.steps import Step, StepSums
from npu_tui.load.errors import InputError
from npu_tui.load.find import Source, twin_of
from npu_tui.profile.file_tables import has_ports
from npu_tui.profile.parts import WHOLE_TRACE
from npu_tui.profile.profile import Profile
from npu_tui.rules.model import Findings
from npu_tui.strings import say, words
from npu_tui.subjects import subject_of
from npu_tui.trace.classes import OpClass
from npu_tui.trace.message import Said
from npu_tui.trace.model import Trace
from npu_tui.trace.text import brief, cell_count, duration_text, printable, shortened, wrapped
from npu_tui.tui.loading import BARS_FROM, verdict_lines, verdict_rows
from npu_tui.tui.rows import text_lines
from npu_tui.tui.session import Session, kept
from npu_tui.tui.terminal.frames import ALERT, class_colour
from npu_tui.view.explorer import Explorer

if TYPE_CHECKING:
    from npu_tui.profile.scene import ShownPath

_NARROWEST = 4  # cells that words are broken to at least; narrower ones are cut


class HeadRow(Static):
    """Lines of text above a drawing, which do not wrap; without any it takes no room."""

    DEFAULT_CSS = """
    HeadRow { height: 1; background: $panel; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
    HeadRow.-hidden { display: none; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._text: Text | None = None
        self._lines: list[Text] = []
        self._room = 0
        self._beside = ""

    def fill(self, lines: list[Text], room: int = 0) -> None:
        """Show ``lines`` in at least ``room`` rows; nothing is drawn where they are the ones that stand there."""
        self._lines, self._room = lines, room
        self._draw()

    def put_beside(self, words: str) -> None:
        """Show ``words`` at the right end of the first line, whatever it says there, until there are none."""
        self._beside = words
        self._draw()

    def _draw(self) -> None:
        lines, room = self._lines, self._room
        if self._beside and lines:
            lines = [_with_words(lines[0], self._beside, self.app.size.width - 2), *lines[1:]]
        self.set_class(not lines, "-hidden")
        self.styles.height = max(len(lines), room, 1)
        text = Text("\n", no_wrap=True, end="").join(lines)
        if text != self._text:
            self._text = text
            self.update(text, layout=False)

    @property
    def said(self) -> list[str]:
        """The lines of the row as text."""
        return [] if self._text is None or not self.rows else self._text.plain.split("\n")

    @property
    def rows(self) -> int:
        """The rows that it takes."""
        return 0 if self._text is None or self.has_class("-hidden") else self._text.plain.count("\n") + 1


_LEAST_AHEAD = 12  # cells of a line that words beside it leave to it: the rank or the name of what is on screen


def _with_words(line: Text, words: str, width: int) -> Text:
    """``line`` cut for ``words`` on its right; both take ``width`` cells."""
    right = Text.assemble("  ", (shortened(words, max(width - _LEAST_AHEAD - 2, 1)), "bold reverse"))
    ahead = line.copy()
    ahead.truncate(max(width - right.cell_len, 0), overflow="ellipsis", pad=True)
    return ahead.append_text(right)


class HeadLines:
    """The three lines above a drawing: what it shows, what is wrong with it, and ``facts`` such as bars of its time.

    ``examined`` counts the profiles with findings.
    """

    def __init__(self) -> None:
        self.headline, self.verdict, self.facts = HeadRow(), HeadRow(), HeadRow()
        self.examined = 0

    @property
    def lines(self) -> tuple[HeadRow, HeadRow, HeadRow]:
        """All three from top to bottom."""
        return self.headline, self.verdict, self.facts

    def wait_for(self, words: str) -> None:
        """Say what is being waited for beside the headline; nothing once it is there."""
        self.headline.put_beside(words)


class Head(HeadLines):
    """The rank, the verdict, the step and the device under the cursor."""

    def __init__(self) -> None:
        super().__init__()
        self._times: dict[int, HeadTimes] = {}
        self._shown: tuple[object, ...] = ()

    def learn(self, index: int, times: HeadTimes) -> None:
        """Take the times of trace number ``index``."""
        self._times[index] = times

    def show(
        self,
        session: Session,
        explorer: Explorer,
        size: Size,
        with_panel: bool,
        anew: bool = True,
        gone: Text | None = None,
    ) -> None:
        """Fill the lines for a terminal of ``size``, with bars where it has room for them; ``with_panel``: and a panel.

        A finding that was ``gone`` to, and that no panel shows, stands in place of the verdict.

        Unless ``anew`` only where the user has come to another trace, device or step: most keys do not leave them.
        """
        focused, traces = explorer.focused, session.scene.traces
        index = focused.trace if focused is not None else 0
        device = traces[index].layers[focused.layer].device if focused is not None and focused.layer >= 0 else None
        times = self._times.get(index) if size.height >= BARS_FROM else None
        step = 0
        if times is not None:
            step = nearest_step(traces[index], times, session.scene.to_trace(index, explorer.state.cursor))
        before, place = self._shown, (index, with_panel, size, gone, device, step)
        if place == before and not anew:
            return
        self._shown = place
        bars: list[Text | None] = []
        if times is not None:
            at = next((number for number, times_of in enumerate(times.devices) if times_of.device == device), 0)
            # Shares of the same time with two denominators say two things about one: the step, else all of it.
            bars = [step_line(traces[index], times, step, at, size.width - 2) or device_line(times, step, at)]
        self.facts.fill([_fitting_parts(line, size.width - 2) for line in bars if line is not None])
        if anew or place[:4] != before[:4]:
            self.headline.fill(_headline_rows(session, index, not any(bars), size.width - 2))
            self._show_verdict(session, index, size, verdict_lines(size.height, with_panel), gone)

    def _show_verdict(self, session: Session, index: int, size: Size, most: int, gone: Text | None) -> None:
        """Show the finding that was ``gone`` to, else the leading ones in at most ``most`` lines, one for each.

        Where there is room for one finding only, or one is all there is, and the width cuts it, it takes all lines.
        """
        found = session.findings.get(index)
        if gone is not None:
            lines = [gone]
        elif found is None:
            lines = [Text(session.examining(index), "dim")]
        else:
            leads = found.leaders
            # Red is the first finding alone: what is to be done next.
            lines = [
                _finding_line(number, words(said), number == 1 and leads[0].severity == "high")
                if number <= len(leads)
                else _unnumbered(said)
                for number, said in enumerate(found.verdict, 1)
            ]
        width = size.width - 2
        single = verdict_rows(size.height) == 1 or len(lines) == 1
        if single and most > 1 and lines and lines[0].cell_len > width:
            lines = _broken(self.verdict.app.console, lines[0], max(width, _NARROWEST), most)
        else:
            lines = [whole_sentences(line, width) for line in lines]
        # What is not known yet keeps the room of what will be said, so that the lanes do not jump.
        self.verdict.fill(lines[:most], most if found is None or gone is not None else 0)


# Where a line of the verdict can end: before its last brackets, and after a sentence.
_ENDS = re.compile(r"\s?[(（][^()（）]*[)）](?=[.。])|(?<=\.)\s|(?<=。)")
_MOST_OF = 0.5  # the share of the width that the sentences take at least; else one is cut


def whole_sentences(line: Text, width: int) -> Text:
    """``line`` without its last sentences or brackets, as far as ``width`` cells are too few for them."""
    ends = [found.start() for found in _ENDS.finditer(line.plain)] if line.cell_len > width else []
    shorter = next((part for end in reversed(ends) if (part := line[:end]).cell_len <= width), line)
    return shorter if shorter.cell_len >= _MOST_OF * width else line


def _broken(console: Console, line: Text, width: int, most: int) -> list[Text]:
    """``line`` on at most ``most`` lines of ``width`` cells; further lines begin below the text after the number."""
    indent = "  " if line.plain[:1].isdigit() else ""
    parts = text_lines(line, width - len(indent), console)
    parts = [*parts[: most - 1], Text(" ").join(parts[most - 1 :])] if len(parts) >= most else parts
    return [Text.assemble(indent if number else "", part, no_wrap=True, end="") for number, part in enumerate(parts)]


def _unnumbered(said: Said) -> Text:
    """What is no step of the work has no number."""
    return Text(words(said), "bold", no_wrap=True, end="")


def _finding_line(number: int, told: str, grave: bool) -> Text:
    what = re.match(r".*?(: |：)", told)  # no colon of ``train.py:33``
    style, end = f"bold {ALERT}" if grave else "bold", what.end() if what else 0
    rest = told[end:] if end else ""
    return Text.assemble((f"{number} ", style), (told[:end] or told, style), rest, no_wrap=True, end="")


_FILLS = {"prep": "·", "compute": "█", "exposed": "▒", "copies": "▓", "free": "╱"}
_CLASSES = {
    "prep": OpClass.STEP,
    "compute": OpClass.CUBE,
    "exposed": OpClass.COMMUNICATION,
    "copies": OpClass.MEMORY,
    "free": OpClass.WAIT,
}


class DeviceTimes(Struct, frozen=True):
    """One device of a trace: its whole ``overlap``, and the sums of each step."""

    device: int | None
    overlap: Overlap
    sums: list[StepSums]


class HeadTimes(Struct, frozen=True, dict=True):
    """The steps of a trace, and what its devices did in them."""

    steps: list[Step]
    devices: list[DeviceTimes]

    @cached_property
    def items(self) -> npt.NDArray[np.int64]:
        """The slice of each step."""
        return np.array([step.item for step in self.steps], np.int64)


def measure(profile: Profile) -> HeadTimes:
    """The times that the lines show."""
    sums = zip(profile.overlaps, profile.sums_by_device, strict=True)
    return HeadTimes(profile.steps, [DeviceTimes(overlap.device, overlap, steps) for overlap, steps in sums])


def examined(session: Session) -> Iterator[tuple[int, HeadTimes | Findings | list[ShownPath] | None]]:
    """What takes long of each profile, with its number: times, then findings, then critical paths.

    None once what lies beside it is read.
    """
    from npu_tui.profile.scene import shown_paths  # with the rules: nothing of them is drawn first

    for index, profile in enumerate(session.profiles):
        yield index, measure(profile)
        try:
            with kept():
                findings = profile.part(WHOLE_TRACE).findings
                _ = profile.event_pairs  # which a selected wait or record shows at once
        except InputError as error:
            findings = Findings((), (), (words(error.message),))
        yield index, findings
    for index, profile in enumerate(session.profiles):
        paths: list[ShownPath] = []
        with suppress(InputError), kept():  # the findings say what is wrong
            paths = shown_paths(profile)
        yield index, paths
    for index, profile in enumerate(session.profiles):
        if profile.memory.is_known or profile.cpu is not None or has_ports(profile):
            yield index, None


def nearest_step(trace: Trace, times: HeadTimes, when: int) -> int:
    """Which of the steps holds ``when`` ns, else the nearest one."""
    slices = trace.slices
    items = times.items
    if items[0] < 0:
        return 0
    return int(np.maximum(np.maximum(slices.start[items] - when, when - slices.end[items]), 0).argmin())


def step_line(trace: Trace, times: HeadTimes, step: int, device: int, width: int) -> Text | None:
    """One step as a bar of ``width`` cells; None where the trace has no step or no device.

    As everywhere, shares are those of the device time, from the first kernel to the last: what comes before it is given
    as a time.
    """
    item = times.steps[step].item
    if item < 0 or not times.devices:
        return None
    length = int(trace.slices.end[item] - trace.slices.start[item])
    sums = times.devices[device].sums[step]
    parts = [
        ("prep", sums.preparing),
        ("compute", sums.overlap.computing),
        ("exposed", sums.overlap.not_overlapped),
        ("copies", sums.overlap.copies),
        ("free", sums.overlap.free),
    ]
    known = [(key, value) for key, value in parts if value is not None and value > 0]
    # A device that is late works on a step after it has ended on the host.
    whole = max(length, sum(value for _, value in known), 1)
    name = brief(times.steps[step].name or "", max(width // 4, 16))
    words = say("bars.step", step=name, length=duration_text(length))
    if whole > length:
        words = say("bars.step.longer", step=words, whole=duration_text(whole))
    busy = max(sum(value for key, value in known if key != "prep"), 1)
    labels = {
        key: say("bars.prep", time=value) if key == "prep" else say(f"bars.{key}", share=f"{value / busy:.1%}")
        for key, value in known
    }
    beside: list[str] = []
    while True:  # what has no room for its name is named after the bar, which gets shorter for it
        line = Text(f"{words} ", style="bold", no_wrap=True, end="")
        legend = Text(end="").join(
            Text.assemble("  ", (_FILLS[key], class_colour(_CLASSES[key])), f" {labels[key]}") for key in beside
        )
        room, done, nameless = max(width - line.cell_len - legend.cell_len, _LEAST_BAR), 0, None
        for key, value in known:
            begin, done = done * room // whole, done + value
            cells = done * room // whole - begin
            if key not in beside and cells - cell_count(labels[key]) < _AROUND_LABEL:
                nameless = nameless or key
            line.append_text(_segment(key, "" if key in beside else labels[key], cells))
        if nameless is None or room == _LEAST_BAR:
            return line.append_text(legend)
        beside.append(nameless)


_LEAST_BAR = 12  # cells of the bar below which names beside it are cut
_AROUND_LABEL = 2  # cells of a part that its name leaves to its fill


def _segment(key: str, label: str, cells: int) -> Text:
    """A part of the bar: its fill, on both sides of its ``label`` where there is room for that."""
    style, fill = class_colour(_CLASSES[key]), _FILLS[key]
    for gap in (" ", ""):
        rest = cells - cell_count(label) - 2 * len(gap) - 1
        if label and rest > 0:
            return Text.assemble((fill, style), (f"{gap}{label}{gap}", "bold"), (fill * rest, style), end="")
    return Text(fill * max(cells, 0), style=style, end="")


def device_line(times: HeadTimes, step: int, device: int) -> Text | None:
    """The whole time of one device in words, each with the fill it has in the bar above; None without one."""
    if not times.devices or not times.devices[device].overlap.total:
        return None
    from npu_tui.rules.compute import UTILIZATION_POOR  # the lanes come before the rules

    shown = times.devices[device]
    overlap, preparing = shown.overlap, shown.sums[step].preparing
    name = say("bars.device" if len(times.steps) == 1 else "bars.trace")
    if len(times.devices) > 1 and shown.device is not None:
        name = say("bars.device.number", device=shown.device)
    line = Text(no_wrap=True, end="")
    line.append(say("bars.whole", name=name, time=overlap.total), style="bold")
    parts = [("compute", overlap.computing), ("exposed", overlap.not_overlapped), ("free", overlap.free)]
    if overlap.copies:
        parts.insert(2, ("copies", overlap.copies))
    for key, part in parts:
        line.append("  ")
        line.append(_FILLS[key], style=class_colour(_CLASSES[key]))
        severe = key == "compute" and overlap.ratio(part) < UTILIZATION_POOR.default
        line.append(f" {say(f'bars.{key}', share=f'{overlap.ratio(part):.1%}')}", style=ALERT if severe else "")
    if preparing is not None and preparing > 0:
        line.append("  ")
        line.append(_FILLS["prep"], style=class_colour(_CLASSES["prep"]))
        line.append(f" {say('bars.before', time=duration_text(preparing))}", style="dim")
    return line


def _fitting_parts(line: Text, width: int) -> Text:
    """``line`` without its last parts, which two blanks part, as far as ``width`` cells are too few for them."""
    while line.cell_len > width and "  " in line.plain:
        line = line[: line.plain.rindex("  ")]
    return line


_GAP = "  │  "
_THREAD = 2  # lines of what the job says and of the rank, where one is too short for all of it
_LEAST_PATH = 12
_EVERYWHERE = frozenset({"ASCEND_PROFILER_OUTPUT", "trace_view.json", "trace_view.json.gz"})


def headline(session: Session, trace: int, with_shares: bool) -> list[list[Text]]:
    """The parts of the top line by their worth: rank, chip, steps, overlap (``with_shares``), form and path.

    What is wrong stands below it: only that is red. All but the last may have shorter forms.
    """
    profile = session.profiles[trace]
    shown = profile.trace
    devices = profile.dispatch
    rank = say("header.no_rank") if len(devices) < 2 else say("header.devices", count=len(devices))
    parts = [[Text(rank if shown.rank is None else say("header.rank", rank=shown.rank), style="bold")]]
    if trace in session.findings:  # what the rules have read needs no more reading
        parts += _chip_and_steps(profile)
    if (about := subject_of(shown).about(shown, profile.judged if trace in session.findings else None)) is not None:
        parts = [[Text(about, style="bold")]]
    elif session.is_tables:
        parts.append([Text(say("header.only_memory" if session.scene.end else "header.no_timeline"))])
    elif not devices and profile.clock_jump is None:  # the verdict names it
        parts.append([Text(say("header.no_dispatch" if session.whole else "header.loading"), style="dim")])
    for device in profile.overlaps if with_shares else []:
        if device.total:
            shares = (("compute", device.computing), ("exposed", device.not_overlapped), ("free", device.free))
            words = [say(f"header.{key}", share=f"{device.ratio(part):.1%}") for key, part in shares]
            name = _device_name(device.device) if len(devices) > 1 else ""
            largest = words[max(range(len(shares)), key=lambda number: shares[number][1])]
            parts.append([Text(name + "  ".join(words)), Text(name + largest)])
    parts.append([Text(_form(profile.source)), Text(printable(profile_name(shown.path)))])
    return parts


def _form(source: Source | None) -> str:
    """The word for text or database before a profile's path; empty for a text that has no database beside it."""
    is_database = source is not None and source.kind == "database"
    if source is None or not (is_database or twin_of(source)):
        return ""
    return say("header.database" if is_database else "header.text") + ": "


def _device_name(device: int | None) -> str:
    return say("header.of_device", device=device, words="") if device is not None else ""


def _chip_and_steps(profile: Profile) -> list[list[Text]]:
    """Which chip it is, how many steps findings judge, and how long one takes; what is not known is left out."""
    parts = [[Text(printable(profile.setup.chip))]] if profile.setup.chip else []
    facts = next((each for each in profile.facts if each.step_ns), None)
    if facts is not None:
        count = say(f"whatif.count.{facts.unit_name}", count=facts.count)
        parts.append([Text(say("header.steps", count=count, length=duration_text(facts.step_ns)))])
    return parts


def profile_name(path: str) -> str:
    """The path of a trace without the folders and names that every profile has."""
    folders = path.split("/")
    while len(folders) > 1 and folders[-1] in _EVERYWHERE:
        folders.pop()
    return "/".join(folders)


def _headline_rows(session: Session, trace: int, with_shares: bool, width: int) -> list[Text]:
    """The headline in one line, in two where that is too short for what the job says of the rank."""
    parts = headline(session, trace, with_shares)
    if session.thread is None:
        return [_fitted(parts, width)]
    rank = parts[0][0]
    told = f"{rank.plain}{_GAP}{say('header.from_job', title=session.thread)}"
    lines = wrapped_to_end(told, width, _THREAD)
    rows = [Text(line, no_wrap=True, end="") for line in lines]
    rows[0].stylize(rank.style, 0, len(rank.plain))
    return [*rows[:-1], _fitted(parts[1:], width, rows[-1])]


_LAST_PART = re.compile(r"[;；][^;；]*$")
_PARTS = re.compile(r"[,:](?= )|[，：]")


def wrapped_to_end(text: str, width: int, most: int) -> list[str]:
    """``text`` in at most ``most`` lines of ``width`` cells; a longer one keeps its last part, which has the gain.

    Parts before it go from the last one on. Where none is left, letters go, and at last the end.
    """
    last = found.start() if (found := _LAST_PART.search(text)) is not None else len(text)
    begun = text[:last]
    whole = [begun, *(begun[: found.start()] for found in reversed([*_PARTS.finditer(begun)]))]
    for part in (*whole, *(shortened(begun, cells) for cells in range(cell_count(begun), 0, -1))):
        lines = wrapped(part + text[last:], width)
        if len(lines) <= most:
            return lines
    lines = wrapped(text, width)
    return [*lines[: most - 1], shortened(" ".join(lines[most - 1 :]), width)]


def _fitted(parts: list[list[Text]], width: int, begun: Text | None = None) -> Text:
    """As many ``parts`` of the headline as fit into ``width`` cells after what is ``begun``; the path is cut ahead."""
    line = Text(no_wrap=True, end="") if begun is None else begun
    for forms in parts[:-1]:
        gap = _GAP if line.plain else ""
        part = next((form for form in forms if form.cell_len <= width - line.cell_len - len(gap)), None)
        if part is not None:
            line.append(gap, style="dim").append_text(part)
    form, path = (part.plain for part in parts[-1])
    room = width - line.cell_len - len(_GAP) - len(form)
    if room >= _LEAST_PATH:
        line.append(f"{_GAP}{form}{shortened(path, room, ahead=True)}", style="dim")
    elif form and room >= -2:  # the colon and the blank after the form need no room
        line.append(f"{_GAP}{form.rstrip(': ')}", style="dim")
    return line
