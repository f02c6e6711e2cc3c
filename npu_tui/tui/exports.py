"""What is on screen written to a file: as a report, as a picture, as a page to pan and zoom in a browser."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from npu_tui.load.errors import InputError
from npu_tui.strings import say, words
from npu_tui.trace.text import printable
from npu_tui.whole_file import write_file

if TYPE_CHECKING:
    from npu_tui.output.statement import Statement

FORMS = {".html": "html", ".htm": "html", ".md": "markdown", ".txt": "text", ".json": "json"}
"""What a report is written as, by the ending of its file."""


def report_to(name: str, statement: Callable[[], Statement]) -> str:
    """Write ``statement`` into the file ``name`` in the form that its ending names; returns what to tell."""
    form = FORMS.get(Path(name).suffix.lower())
    if form is None:
        return say("export.report_needs", endings=", ".join(FORMS))

    def made() -> bytes:
        text = statement().written(form)
        return text if isinstance(text, bytes) else text.encode("utf-8", "replace")

    return _written(name, made)


def page_to(name: str, ending: str, made: Callable[[], str]) -> str:
    """Write what is ``made`` into the file ``name``, which has such an ``ending``; returns what to tell."""
    if Path(name).suffix.lower() != ending:
        return say("export.needs", ending=ending)
    return _written(name, lambda: made().encode("utf-8", "replace"))


def _written(name: str, made: Callable[[], bytes]) -> str:
    path = Path(name).expanduser()
    try:
        data = made()
        write_file(path, data)
    except InputError as error:
        return words(error.message)
    except OSError as error:
        return say("export.failed", path=printable(str(path)), why=error.strerror or str(error))
    return say("export.done", path=printable(str(path)), size=len(data))
