"""Every text a user can see, one table per room, so that another language is one more set of tables."""

from __future__ import annotations

from npu_tui.strings import (
    cli,
    commands,
    explain,
    findings,
    gate,
    opening,
    pages,
    report,
    screen,
    settings,
    tabs,
    thresholds,
)

ENGLISH: dict[str, str] = (
    cli.ENGLISH
    | commands.ENGLISH
    | explain.ENGLISH
    | findings.ENGLISH
    | gate.ENGLISH
    | opening.ENGLISH
    | pages.ENGLISH
    | report.ENGLISH
    | screen.ENGLISH
    | settings.ENGLISH
    | tabs.ENGLISH
    | thresholds.ENGLISH
)


def knows(key: str) -> bool:
    """Whether the table has ``key``."""
    return key in ENGLISH


def say(key: str, /, **values: object) -> str:
    """The text for ``key`` with ``values`` filled in."""
    return ENGLISH[key].format(**values)
