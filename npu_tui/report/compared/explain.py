"""What a finding of a comparison means, in plain text."""

from __future__ import annotations

from npu_tui.compare.differences import IDS
from npu_tui.strings import say
from npu_tui.trace.text import wrapped

_WIDTH = 100


def difference_of(wanted: str) -> str | None:
    """The id ``wanted``, in any case; None if no finding of a comparison is called so."""
    known = wanted.strip().upper()
    return known if known in IDS else None


def explain_difference(key: str) -> str:
    """Everything about the finding ``key``."""
    item = say("explain.item", text=say(f"explain.{key}.do"))
    lines = [
        f"{key} · {say('explain.compare')}",
        "",
        *wrapped(say(f"explain.{key}"), _WIDTH),
        "",
        say("explain.compare.needs"),
        "",
        say("explain.advice"),
        *wrapped(item.strip(), _WIDTH, "  ", "    "),
    ]
    return "\n".join(lines) + "\n"
