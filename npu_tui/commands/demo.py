"""``npu-tui demo``: the explorer on a bundled profile."""

from __future__ import annotations

from npu_tui.commands.explore import explore
from npu_tui.commands.look import add_look
from npu_tui.commands.parser import Parser
from npu_tui.commands.place import add_place
from npu_tui.strings import say


def run(words: list[str]) -> int:
    """Open the profile that ``words`` name; returns the exit code."""
    from npu_tui.demo import DEFAULT, demos

    found = demos()
    parser = Parser(prog="npu-tui demo", description=say("cli.demo"))
    help_text = say("cli.demo_name", names=", ".join(found))
    parser.add_argument("name", nargs="?", default=DEFAULT, metavar="NAME", help=help_text)
    add_look(parser)
    add_place(parser)
    options = parser.parse_args(words)
    name = options.name
    if name not in found:
        parser.error(say("cli.no_demo", name=name, names=", ".join(found)))
    return explore([found[name]], parser, options)
