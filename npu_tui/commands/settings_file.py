"""The user's settings as commands need them: checked against the names that the rooms own."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from npu_tui.commands.look import THEMES
from npu_tui.commands.streams import refuse
from npu_tui.strings import say

if TYPE_CHECKING:
    from npu_tui.analysis.thresholds import Thresholds
    from npu_tui.settings import Known, Settings


_KEYMAP = "npu_tui.tui.keys.keymap"


class _Defaults(Mapping[str, "bool | int | float"]):
    """The default of every threshold by name; the rules are imported when a file names one."""

    @cached_property
    def _by_name(self) -> dict[str, bool | int | float]:
        from npu_tui.rules.find import THRESHOLDS

        return {threshold.name: threshold.default for threshold in THRESHOLDS}

    def __getitem__(self, name: str) -> bool | int | float:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)


def known_settings() -> Known:
    """Every name that a settings file may use, from the rooms that own them."""
    from npu_tui.settings import Known
    from npu_tui.tui.keys.commands import BY_ID

    return Known(commands=BY_ID, themes=THEMES, thresholds=_Defaults())


def read_settings() -> Settings | None:
    """The user's settings, None after saying what is wrong with them."""
    from npu_tui.settings import SettingsError, load_settings, settings_path

    try:
        # What the names may be takes imports that only a file is worth.
        settings = load_settings(known=known_settings() if settings_path().exists() else None)
        if settings.keys or _KEYMAP in sys.modules:  # else the keys are as they come, and are read after the lanes
            from npu_tui.tui.keys.keymap import use_settings

            use_settings(settings)
        return settings
    except SettingsError as error:
        refuse(error)
        return None


def threshold_rows() -> list[tuple[str, bool | int | float, str]]:
    """Name, default and meaning of every threshold of a finding."""
    from npu_tui.rules.find import THRESHOLDS

    return [(limit.name, limit.default, say(f"threshold.{limit.name}")) for limit in THRESHOLDS]


def thresholds_of(option: str | None) -> Thresholds:
    """The thresholds of the settings in use, those of the file ``option`` if there is one. Raises ``SettingsError``."""
    from npu_tui.analysis.thresholds import Thresholds
    from npu_tui.settings import load_settings

    return Thresholds(**load_settings(option, known_settings()).thresholds)
