"""Lists whose keys run the commands of the registry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import ClassVar

from npu_tui.tui.keys.bindings import list_bindings
from npu_tui.tui.keys.commands import Where, commands_of

_END = 1 << 30


def walking(move: Callable[[int], object], page: Callable[[int], object]) -> dict[str, Callable[[], object]]:
    """What the commands that walk along a list do: ``move`` goes so many rows down, ``page`` so many pages."""
    return {
        "row_up": partial(move, -1),
        "row_down": partial(move, 1),
        "row_last": partial(move, _END),
        "list_first": partial(move, -_END),
        "list_last": partial(move, _END),
        "page_up": partial(page, -1),
        "page_down": partial(page, 1),
    }


class Listed:
    """A screen, or an app of one screen, that is a list: ``acts`` are what its commands do, by their ids."""

    where: ClassVar[Where]
    acts: Mapping[str, Callable[[], object]]
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
        self.acts[command]()
