"""A line of code in the user's editor."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

from textual.app import App, SuspendNotSupported

from npu_tui.analysis.code_lines import CodeLine
from npu_tui.strings import say
from npu_tui.trace.text import brief, printable

_EDITOR = "vi"


def open_line(app: App[Any], code: CodeLine) -> str:
    """Open ``code`` in ``$VISUAL`` or ``$EDITOR`` where its file is here, else copy it; returns what was done."""
    place = say("lines.place", file=printable(code.file), line=code.line)
    shown = brief(place)
    file = Path(code.file)
    if not file.is_file():
        app.copy_to_clipboard(place)
        return say("code.copied", place=shown)
    try:
        command = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or _EDITOR) or [_EDITOR]
        with app.suspend():
            # A whole path cannot be taken for an option.
            subprocess.run([*command, f"+{code.line}", str(file.resolve())], check=False)
    except (OSError, ValueError, SuspendNotSupported) as error:
        app.copy_to_clipboard(place)
        return say("code.failed", place=shown, why=str(error) or type(error).__name__)
    return say("code.opened", place=shown)
