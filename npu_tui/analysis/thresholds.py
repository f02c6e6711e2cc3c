"""From where on something is worth a finding: numbers declared where they are used, each a setting of the user."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from msgspec import Struct

Number = TypeVar("Number", int, float)


class Threshold(Struct, Generic[Number], frozen=True):
    """A number that rules compare with, and what it is without a setting of the user.

    Shares are of 1, times and sizes in the unit that the name ends with. A whole number as ``default`` wants whole
    numbers. What it gates and where its default comes from is the text ``threshold.<name>`` of ``npu_tui.strings``.
    """

    name: str
    default: Number


AnyThreshold = Threshold[Any]


class Thresholds:
    """The value of every threshold: its default, but for those that the user has ``changed``, by name.

    ``limits[FREE_SHARE]`` is 0.1, or what the table ``[thresholds]`` of the settings says. The names are checked where
    the settings are read.
    """

    def __init__(self, **changed: float) -> None:
        self._changed = changed

    def __getitem__(self, threshold: Threshold[Number]) -> Number:
        value: Any = self._changed.get(threshold.name, threshold.default)
        return value  # type: ignore[no-any-return]
