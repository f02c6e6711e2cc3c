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
    wanted = options.id
    from npu_tui.report.explain import explain, explain_judged, judged_id_of, list_findings, rule_of, unknown

    if wanted is None:
        write(list_findings())
        return DONE
    rule, judged = rule_of(wanted), judged_id_of(wanted)
    if judged is not None:
        write(explain_judged(judged))
        return DONE
    if rule is None:
        parser.error(unknown(wanted))
    write(explain(rule, thresholds_of(options.config)))
    return DONE
