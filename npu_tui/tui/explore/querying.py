"""The prompt for SQL over the tables of the profile: tables and columns are completed, the answer goes into a tab."""

from __future__ import annotations

from collections.abc import Callable

from npu_tui.strings import say
from npu_tui.tables.naming import Name, possible_names
from npu_tui.tables.schema import ONE_PROFILE
from npu_tui.tui.widgets.prompt import Prompt

_HINT_SHARE = 0.4
"""Of the width, for what the last word may become, however long the query is."""


class Querying:
    """Asks in ``prompt`` for a query; ``answer`` shows what comes of it."""

    def __init__(self, prompt: Prompt, answer: Callable[[str], None]) -> None:
        self._prompt = prompt
        self._answer = answer
        self._asked = ""
        self._found: list[Name] = []
        self._at = 0
        self._typed = ""

    def open(self, sql: str | None = None) -> None:
        """Ask for a query, beginning with ``sql``, else with the last one."""
        self._found, self._at, self._typed = [], 0, ""
        self._prompt.open("sql", self._asked if sql is None else sql, say("sql.hint"))

    def complete(self, sql: str) -> None:
        """Show what the last word of ``sql`` may become."""
        if sql != self._typed:
            self._found, self._at, self._typed = possible_names(sql, ONE_PROFILE), 0, sql
            self._show()

    def choose(self, direction: int) -> None:
        """Go to the next or previous name."""
        self.complete(self._prompt.text)
        if self._found:
            self._at = (self._at + direction) % len(self._found)
            self._show()

    def taken(self) -> str | None:
        """The query with the name on show."""
        self.complete(self._prompt.text)
        return self._found[self._at].text if self._found else None

    def ask(self, sql: str) -> None:
        """Show the answer to ``sql``."""
        self._asked = sql.strip()
        self._answer(self._asked)

    def _show(self) -> None:
        if not self._found:
            self._prompt.answer(say("sql.hint"))
            return
        found = self._found[self._at]
        name = f"{found.word} [{found.unit}]" if found.unit else found.word
        words = say("sql.found", name=name, about=say(found.key), n=self._at + 1, count=len(self._found))
        self._prompt.answer(words, _HINT_SHARE)
