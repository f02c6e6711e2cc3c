"""Lists whose keys run the commands of the registry."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from npu_tui.tui.keys.bindings import list_bindings
from npu_tui.tui.keys.commands import BY_ID, Where, commands_of


class Listed:
    """A screen, or an app of one screen, that is a list."""

    where: ClassVar[Where]
    _prefix = ""

    @property
    def bound(self) -> frozenset[str]:
        """The keys of its commands, under every name that terminals deliver them."""
        return frozenset(binding.key for binding in list_bindings(self.where))

    def action_prefix(self, key: str) -> None:
        """Take the first key of a sequence; the second one runs its command."""
        if self._prefix == key:
            self.action_run(next(each.id for each in commands_of(self.where) if f"{key} {key}" in each.keys))
        else:
            self._prefix = key

    def action_run(self, command: str) -> None:
        """Run the command called ``command``."""
        self._prefix = ""
        BY_ID[command].acts[self.where](self)

    @abstractmethod
    def move(self, by: int) -> None:
        """Go ``by`` rows down."""

    @abstractmethod
    def page(self, by: int) -> None:
        """Go ``by`` pages down."""

    @abstractmethod
    def open(self) -> None:
        """Open what is marked, or the row of the cursor."""

    @abstractmethod
    def escape(self) -> None:
        """Take back what is chosen, else leave."""

    @abstractmethod
    def leave_list(self) -> None:
        """Leave without opening anything."""
