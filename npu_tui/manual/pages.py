"""Which pages there are, and how they read on a terminal."""

from __future__ import annotations

TOPICS = (
    "screen", "keys", "search", "report", "ranks", "compare", "query", "python", "crop", "ci", "settings", "formats",
    "speed", "terminals", "browser", "agents",
)  # fmt: skip
"""The topics, from the first minutes to what scripts need."""

_WIDEST = 110


def page(topic: str, language: str) -> str:
    """The Markdown of ``topic``, one of ``TOPICS``, in ``language``."""
    from importlib.resources import files

    return (files(__package__) / language / f"{topic}.md").read_text(encoding="utf-8")


def title(topic: str, language: str) -> str:
    """What the page about ``topic`` is called in ``language``."""
    return page(topic, language).partition("\n")[0].lstrip("# ")


def drawn(text: str, columns: int) -> str:
    """Markdown ``text`` for a terminal of ``columns`` cells, with escape sequences."""
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console(width=min(columns, _WIDEST), force_terminal=True)
    with console.capture() as said:
        console.print(Markdown(text, code_theme="ansi_dark"))
    return said.get()
