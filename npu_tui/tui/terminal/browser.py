"""Whether a browser draws in place of a terminal."""

from __future__ import annotations

import os


def in_browser() -> bool:
    """Whether a server draws this program in a browser (``textual serve``): it names Textual's driver for it."""
    return bool(os.environ.get("TEXTUAL_DRIVER"))
