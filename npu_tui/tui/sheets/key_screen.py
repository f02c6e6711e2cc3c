"""A screen on which keys run the commands of the registry."""

from __future__ import annotations

from textual.binding import BindingsMap
from textual.screen import Screen

from npu_tui.tui.keys.bindings import ASKING, screen_bindings
from npu_tui.tui.keys.commands import COMMANDS
from npu_tui.tui.widgets.prompt import Prompt
from npu_tui.tui.widgets.timeline import Timeline


class KeyScreen(Screen[None], inherit_bindings=False):
    """Lanes, a prompt, and whatever else may have the focus; what it shows is said elsewhere."""

    BINDINGS = screen_bindings()

    def __init__(self) -> None:
        super().__init__()
        self._bindings = BindingsMap(screen_bindings())  # the user's keys are known only now
        self._prefix = ""

    def run_command(self, command: str) -> None:
        """Run the command called ``command``; what began a sequence of keys is forgotten."""
        self._prefix = ""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool:
        """In a prompt keys are text, and what is of the lanes alone wants their focus."""
        asked = self.query_one(Prompt).is_open
        if action in ("lanes_prefix", "lanes_run"):
            return not asked and self.focused is self.query_one(Timeline)
        return not (asked and (action == "prefix" or (action == "run" and parameters[0] in ASKING)))

    def action_prefix(self, key: str) -> None:
        """Take the first key of a sequence; the second one runs its command."""
        if self._prefix == key:
            command = next(command for command in COMMANDS if f"{key} {key}" in command.keys)
            self.run_command(command.id)
        else:
            self._prefix = key

    def action_run(self, command: str) -> None:
        """Run the command called ``command`` (a binding's action)."""
        self.run_command(command)

    action_lanes_prefix, action_lanes_run = action_prefix, action_run
