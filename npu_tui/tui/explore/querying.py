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
        self._asked: list[str] = []
        self._past = 0
        self._found: list[Name] = []
        self._at = 0
        self._typed = ""

    def open(self, sql: str | None = None) -> None:
        """Ask for a query, beginning with ``sql``, else with the last one."""
        self._found, self._at, self._typed, self._past = [], 0, "", len(self._asked)
        if sql is None:
            self._past = max(self._past - 1, 0)
            sql = self._asked[-1] if self._asked else ""
        self._prompt.open("sql", sql, say("sql.hint"))

    def complete(self, sql: str) -> None:
        """Show what the last word of ``sql`` may become."""
        if sql != self._typed:
            self._found, self._at, self._typed = possible_names(sql, ONE_PROFILE), 0, sql
            self._show()

    def choose(self, direction: int) -> None:
        """Go to the next or previous name; where no name is on show, to a later or earlier query."""
        self.complete(self._prompt.text)
        if self._found:
            self._at = (self._at + direction) % len(self._found)
            self._show()
        elif self._asked:
            self._past = min(max(self._past + direction, 0), len(self._asked))
            self._prompt.take(self._asked[self._past] if self._past < len(self._asked) else "")

    def taken(self) -> str | None:
        """The query with the name on show."""
        self.complete(self._prompt.text)
        return self._found[self._at].text if self._found else None

    def ask(self, sql: str) -> None:
        """Show the answer to ``sql``."""
        sql = sql.strip()
        if sql:
            self._asked = [*(each for each in self._asked if each != sql), sql]
        self._answer(sql)

    def _show(self) -> None:
        if not self._found:
            self._prompt.answer(say("sql.hint"))
            return
        found = self._found[self._at]
        name = f"{found.word} [{found.unit}]" if found.unit else found.word
        words = say("sql.found", name=name, about=say(found.key), n=self._at + 1, count=len(self._found))
        self._prompt.answer(words, _HINT_SHARE)
