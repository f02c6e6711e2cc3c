"""Two lines under the headline: what the step was spent on, and what its device did."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from rich.text import Text
from textual.widgets import Static

from npu_tui.analysis.overlap import Overlap
from npu_tui.analysis.steps import Step, StepSums
from npu_tui.profile.profile import Profile
from npu_tui.strings import say
from npu_tui.trace.classes import OpClass
from npu_tui.trace.model import Trace
from npu_tui.trace.text import brief, cell_count, duration_text
from npu_tui.tui.terminal.theme import class_colour

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
