"""The Textual app, the only room that knows Textual."""

from npu_tui.tui.actions import ACTIONS
from npu_tui.tui.commands import declare

declare(ACTIONS)
