"""Every text a user can see, one table per room, so that another language is one more set of tables."""

from __future__ import annotations

from collections.abc import Callable

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


class _Press:
    """What ``{press[zoom_in]}`` in a text stands for: the key that runs the command at present."""

    def __init__(self) -> None:
        self.key_of: Callable[[str], str] = str

    def __getitem__(self, command: str) -> str:
        return self.key_of(command)


_PRESS = _Press()


def name_keys(key_of: Callable[[str], str]) -> None:
    """From now on texts name the key ``key_of(command)`` where they say what to press for a command."""
    _PRESS.key_of = key_of


def say(key: str, /, **values: object) -> str:
    """The text for ``key`` with ``values`` filled in, and the keys that it names."""
    return ENGLISH[key].format(press=_PRESS, **values)
