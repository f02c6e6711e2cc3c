"""The top line: whose trace this is and what its launches cost, in words; and the bottom line of keys."""

from __future__ import annotations

from rich.text import Text
from textual.widgets import Static

from npu_tui.analysis.launches import Dispatch
from npu_tui.ingest.source.find import Source
from npu_tui.strings import say
from npu_tui.trace.text import cell_count, printable, shortened
from npu_tui.tui.keys.footer import Place, footer, led
from npu_tui.tui.session import Session
from npu_tui.tui.terminal.internals import after
from npu_tui.tui.terminal.theme import ALERT

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
