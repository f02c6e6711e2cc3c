"""The pages that the program carries, one Markdown file a topic and language: which there are, and how they read."""

from __future__ import annotations

import re

TUTORIALS = (
    "first", "slow-job", "slow-step", "launches", "cpu", "idle", "operators", "slow-rank", "pipeline", "roles",
    "experts", "peak", "snapshot", "engine", "replay", "serving", "requests", "change", "saving",
)  # fmt: skip
"""One question each, from the first key to the fix."""

PAGES: dict[str, tuple[str, ...]] = {
    "start": ("first", "slow-job", "install", "screen", "keys", "search"),
    "rank": ("slow-step", "path", "launches", "cpu", "idle", "operators", "peak", "engine", "replay", "saving"),
    "job": ("slow-rank", "ranks", "pipeline", "roles", "experts"),
    "service": ("serving", "requests"),
    "snapshot": ("snapshot",),
    "change": ("change", "compare", "history", "ci"),
    "record": ("record", "crop", "formats"),
    "scripts": ("report", "query", "python", "agents", "skill"),
    "program": ("settings", "terminals", "browser", "speed"),
}
"""The topics by what a user has or needs."""

TOPICS = tuple(topic for topics in PAGES.values() for topic in topics)
"""All topics, from the first minutes to what scripts need."""

_FILES = {"skill": "SKILL"}
"""Pages whose file has a name of its own: a skill is a ``SKILL.md`` with a head in YAML, as agents read it."""

_WIDEST = 110
_BREAK_BEHIND_WIDE = re.compile(r"(?<=[\u3000-\u9fff\uff00-\uffef])\n {0,3}(?=[^\s*|#\d-])")


def page(topic: str, language: str) -> str:
    """The Markdown of ``topic``, one of ``TOPICS``, in ``language``."""
    text = _page_text(topic, language)
    return _with_tables(text, language) if topic == "query" else text


def _page_text(topic: str, language: str) -> str:
    from importlib.resources import files

    return (files(__package__) / language / f"{_FILES.get(topic, topic)}.md").read_text(encoding="utf-8")


def _with_tables(text: str, language: str) -> str:
    """``text`` with the names of the tables that there are, in place of ``{tables}`` and ``{tables_of_jobs}``."""
    from npu_tui.query.frames import OF_JOBS, TABLES
    from npu_tui.strings import say, speaking

    with speaking(language):
        comma = say("list.comma")
    for place, names in (("{tables}", TABLES), ("{tables_of_jobs}", OF_JOBS)):
        text = text.replace(place, comma.join(f"`{name}`" for name in names))
    return text


def title(topic: str, language: str) -> str:
    """What the page about ``topic`` is called in ``language``."""
    return next(line for line in _page_text(topic, language).splitlines() if line.startswith("# ")).lstrip("# ")


def drawn(text: str, columns: int) -> str:
    """Markdown ``text`` for a terminal of ``columns`` cells, with escape sequences."""
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console(width=min(columns, _WIDEST), force_terminal=True)
    with console.capture() as said:
        console.print(Markdown(_without_soft_breaks(text), code_theme="ansi_dark"))
    return said.get()


def _without_soft_breaks(text: str) -> str:
    """``text`` without the ends of lines that would put a space between Chinese characters; blocks of code stay."""
    parts = text.split("```")
    parts[::2] = [_BREAK_BEHIND_WIDE.sub("", part) for part in parts[::2]]
    return "```".join(parts)
