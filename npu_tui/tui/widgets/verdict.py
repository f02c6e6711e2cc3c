"""The verdict in words under the headline: what to work on first, and what then."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text
from textual.widgets import Static

from npu_tui.rules.model import Findings
from npu_tui.strings import say, words
from npu_tui.trace.message import Said
from npu_tui.tui.terminal.theme import ALERT

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
