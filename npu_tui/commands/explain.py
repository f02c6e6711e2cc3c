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
    from npu_tui.report.explain import explain, list_findings, rule_of, unknown

    if wanted is None:
        write(list_findings())
        return DONE
    from npu_tui.report.compared.explain import difference_of, explain_difference
    from npu_tui.report.job.explain import explain_job_finding, job_finding_of

    rule, difference, of_job = rule_of(wanted), difference_of(wanted), job_finding_of(wanted)
    if of_job is not None:
        write(explain_job_finding(of_job))
        return DONE
    if difference is not None:
        write(explain_difference(difference))
        return DONE
    if rule is None:
        parser.error(unknown(wanted))
    write(explain(rule, thresholds_of(options.config)))
    return DONE
