"""Every text a user can see, one table per room, so that another language is one more set of tables."""

from __future__ import annotations

from npu_tui.strings import (
    asking,
    cli,
    commands,
    explain,
    findings,
    gate,
    help,
    keymap,
    notes,
    opening,
    pages,
    report,
    rows,
    screen,
    search,
    settings,
    tabs,
    thresholds,
    walk,
)

ENGLISH: dict[str, str] = (
    asking.ENGLISH
    | cli.ENGLISH
    | commands.ENGLISH
    | explain.ENGLISH
    | findings.ENGLISH
    | gate.ENGLISH
    | help.ENGLISH
    | keymap.ENGLISH
    | notes.ENGLISH
    | opening.ENGLISH
    | pages.ENGLISH
    | report.ENGLISH
    | rows.ENGLISH
    | screen.ENGLISH
    | search.ENGLISH
    | settings.ENGLISH
    | tabs.ENGLISH
    | thresholds.ENGLISH
    | walk.ENGLISH
)


def knows(key: str) -> bool:
    """Whether the table has ``key``."""
    return key in ENGLISH


def say(key: str, /, **values: object) -> str:
    """The text for ``key`` with ``values`` filled in."""
    return ENGLISH[key].format(**values)
