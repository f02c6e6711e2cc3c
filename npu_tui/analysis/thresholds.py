"""Thresholds of the rules: numbers that are declared where they are used and that users set in their settings."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from msgspec import Struct

Number = TypeVar("Number", int, float)


class Threshold(Struct, Generic[Number], frozen=True):
    """A number that rules compare with, and its default.

    Shares are 0..1; times and sizes are in the unit at the end of the name. An int as ``default`` means that the
    setting must be an int too. The text ``threshold.<name>`` of ``npu_tui.strings`` says what it gates and where the
    default comes from.
    """

    name: str
    default: Number


AnyThreshold = Threshold[Any]


class Thresholds:
    """The value of every threshold: its default unless the user has ``changed`` it, by name.

    ``limits[FREE_SHARE]`` is 0.1, or the value in the table ``[thresholds]`` of the settings, whose names are checked
    when the settings are read.
    """

    def __init__(self, **changed: float) -> None:
        self._changed = changed

    def __getitem__(self, threshold: Threshold[Number]) -> Number:
        value: Any = self._changed.get(threshold.name, threshold.default)
        return value  # type: ignore[no-any-return]
