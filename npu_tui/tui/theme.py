"""Colours of words beside the timeline, taken from its palette."""

from __future__ import annotations

from npu_tui.view.palette import DARK, Ink

ALERT = "#{:02x}{:02x}{:02x}".format(*DARK.rgb[Ink.ALERT].tolist())
"""Red: a launch starved. Nothing else is red."""
