"""``npu-tui explain``: what a finding means."""

from __future__ import annotations

from npu_tui.commands.parser import Parser
from npu_tui.commands.settings_file import thresholds_of
from npu_tui.commands.streams import DONE, write
from npu_tui.strings import say


def run(words: list[str]) -> int:
    """Explain the finding that ``words`` name, or list all; returns the exit code."""
    parser = Parser(prog="npu-tui explain", description=say("cli.explain"))
    parser.add_argument("id", nargs="?", metavar="ID", help=say("cli.explain_id"))
    parser.add_argument("--config", metavar="FILE", help=say("cli.config"))
    options = parser.parse_args(words)
    from npu_tui.report.explain import explain, kind_of, list_findings, unknown

    if options.id is None:
        write(list_findings())
        return DONE
    kind = kind_of(options.id)
    if kind is None:
        parser.error(unknown(options.id))
    write(explain(kind, thresholds_of(options.config)))
    return DONE
