"""How every command reads its words: options and their help in the language of the user."""

from __future__ import annotations

import argparse
import shutil
from importlib import import_module

from npu_tui.commands.tree import AUTO, EXPLORE, told
from npu_tui.strings import ENGLISH, LANGUAGES, language, room, say
from npu_tui.trace.text import wrapped


def parser_of(command: str) -> Parser:
    """The parser of ``command``, that of the explorer where it is empty."""
    parser: Parser = import_module(f"npu_tui.commands.{command or EXPLORE}").parser()
    return parser


class Parser(argparse.ArgumentParser):
    """A parser that speaks the language of the user; ``--lang`` itself is taken before it (``tree.given``).

    With ``commands`` its help lists all commands.
    """

    def __init__(
        self,
        prog: str,
        description: str,
        epilog: str | None = None,
        usage: str | None = None,
        commands: bool = False,
    ) -> None:
        # What argparse says itself it asks gettext for, by its English text.
        said = {text: room("argparse", language())[key] for key, text in room("argparse", ENGLISH).items()}
        argparse._ = lambda text: said.get(text, text)  # type: ignore[attr-defined]
        super().__init__(
            prog=prog,
            description=description,
            epilog=epilog,
            usage=usage,
            formatter_class=_Help,
            allow_abbrev=False,
        )
        self._commands = commands
        self.add_argument("--lang", choices=(AUTO, *LANGUAGES), help=say("cli.lang"))

    def format_help(self) -> str:
        """The help; where all commands belong to it, they come after what the program is."""
        text = super().format_help()
        if not self._commands:
            return text
        head, _, rest = text.partition("\n\n")
        description, _, rest = rest.partition("\n\n")
        return f"{head}\n\n{description}\n\n{told(_columns())}\n{rest}"


def _columns() -> int:
    """Columns that argparse itself fills."""
    return shutil.get_terminal_size().columns - 2


class _Help(argparse.HelpFormatter):
    """Help whose lines are as wide as the terminal, whatever the width of its characters."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return wrapped(" ".join(text.split()), width)

    def _format_args(self, action: argparse.Action, default_metavar: str) -> str:
        """What is needed stands without brackets, also where the command itself tells that it is missing."""
        text = super()._format_args(action, default_metavar)
        needed = action.required and action.nargs == argparse.OPTIONAL and not action.option_strings
        return text[1:-1] if needed else text

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        lines = [wrapped(" ".join(line.split()), width - len(indent)) for line in text.splitlines()]
        return "\n".join(indent + line for each in lines for line in each)
