"""What colours, textures and lines of the lanes mean."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from npu_tui.strings import say
from npu_tui.trace.classes import OpClass
from npu_tui.tui.tabs.links import shape_text
from npu_tui.tui.terminal.theme import class_style
from npu_tui.view.scene import LinkShape


def legend() -> list[RenderableType]:
    """What colours, textures and lines mean."""
    classes = Text(say("details.legend"), style="dim")
    for op_class in OpClass:
        classes.append("  ")
        classes.append("╱╱" if op_class == OpClass.WAIT else "  ", style=class_style(op_class))
        classes.append(f" {class_name(op_class)}")
    lines = Text.assemble((say("details.lines"), "dim"))
    for shape, starved in (
        (LinkShape.NEAR_VERTICAL, True),
        (LinkShape.NEAR_VERTICAL, False),
        (LinkShape.SHALLOW, False),
        (LinkShape.QUEUED, False),
    ):
        lines.append("  ")
        lines.append_text(shape_text(shape, starved))
    return [classes, lines]


def class_name(op_class: OpClass) -> str:
    """The word for a class of slices."""
    return say(f"class.{op_class.name.lower()}")
