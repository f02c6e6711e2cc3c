"""The part of a profile that a caller names: a range of time or a step."""

from __future__ import annotations

from npu_tui.profile.parts import WHOLE_TRACE, parse_range, select_step
from npu_tui.profile.profile import Profile
from npu_tui.trace.message import Message, message
from npu_tui.trace.text import exact_text


class NoPartError(ValueError):
    """A part that a profile does not have; ``message`` is one line that says so."""

    def __init__(self, message: Message) -> None:
        super().__init__(message.code)
        self.message = message


def part_of(profile: Profile, span: str | None = None, step: int | None = None) -> Profile:
    """The part of ``profile`` in the range ``span`` such as ``12ms..14ms``, or of ``ProfilerStep#step``; else all.

    Raises ``NoPartError`` for both at once, a text that is no range, and what the profile does not have.
    """
    if span is not None and step is not None:
        raise NoPartError(message("query.both"))
    selection = WHOLE_TRACE if span is None else parse_range(span)
    if selection is None:
        raise NoPartError(message("cli.bad_range"))
    if selection.window.start > profile.trace.end or selection.window.end < 0:
        raise NoPartError(message("cli.outside", end=exact_text(profile.trace.end)))
    if step is not None:
        selection = select_step(profile.steps, step)
        if selection is None:
            raise NoPartError(message("cli.no_step", step=step))
    return profile.part(selection)
