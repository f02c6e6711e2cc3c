"""What a finding about a whole job means, in plain text."""

from __future__ import annotations

from npu_tui.job.findings import IDS
from npu_tui.strings import say
from npu_tui.trace.text import wrapped

_WIDTH = 100


def job_finding_of(wanted: str) -> str | None:
    """The id ``wanted``, in any case; None if no finding about a job is called so."""
    known = wanted.strip().upper()
    return known if known in IDS else None


def explain_job_finding(key: str) -> str:
    """Everything about the finding ``key``."""
    item = say("explain.item", text=say(f"explain.{key}.do"))
    lines = [
        f"{key} · {say('explain.job')}",
        "",
        *wrapped(say(f"explain.{key}"), _WIDTH),
        "",
        *wrapped(say("explain.job.needs"), _WIDTH),
        "",
        say("explain.advice"),
        *wrapped(item.strip(), _WIDTH, "  ", "    "),
    ]
    return "\n".join(lines) + "\n"
