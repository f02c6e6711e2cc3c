"""What a screen of keys is about: one widget that is painted from a grid of cells."""

from __future__ import annotations

from abc import abstractmethod

from textual.widget import Widget


class Drawing(Widget, can_focus=True):
    """It is painted soon after ``changed``, any number of times within a frame once."""

    ALLOW_SELECT = False

    @abstractmethod
    def changed(self) -> None:
        """Paint soon."""

    @abstractmethod
    def forget_shown(self) -> None:
        """Something else may have drawn over it: write it whole the next time."""
