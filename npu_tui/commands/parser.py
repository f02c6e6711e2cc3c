"""How every command reads its words: options and their help in the language of the user."""

from __future__ import annotations

import argparse

from npu_tui.strings import ENGLISH, LANGUAGES, language, room, say
from npu_tui.trace.text import wrapped

AUTO = "auto"


class Parser(argparse.ArgumentParser):
    """A parser that speaks the language of the user; ``--lang`` itself was taken before it (``take_language``)."""

    def __init__(self, prog: str, description: str, epilog: str | None = None, usage: str | None = None) -> None:
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
        self.add_argument("--lang", choices=(AUTO, *LANGUAGES), help=say("cli.lang"))


class _Help(argparse.HelpFormatter):
    """Help whose lines are as wide as the terminal, whatever the width of its characters."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return wrapped(" ".join(text.split()), width)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(indent + line for line in wrapped(" ".join(text.split()), width - len(indent)))
