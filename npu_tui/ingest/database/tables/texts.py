"""The texts of a database, which its tables name by number."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npu_tui.ingest.database.tables.joins import told
from npu_tui.ingest.database.tables.rows import ABSENT, Tables
from npu_tui.ingest.json.columns.codes import Codes

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

NOT_APPLICABLE = "N/A"


class Texts:
    """``STRING_IDS``: texts by number."""

    def __init__(self, tables: Tables) -> None:
        table = tables.find("STRING_IDS")
        self._texts = tables.texts(table, "id", "value") if table else {}
        self.missing: set[int] = set()

    def __getitem__(self, number: int) -> str:
        """The text of ``number``, empty for ``ABSENT``, and the number itself where its text is lost."""
        text = self._texts.get(number)
        if text is None:
            if number == ABSENT:
                return ""
            self.missing.add(number)
            return f"#{number}"
        return text

    def codes(self, numbers: I64, into: Codes[str], prefix: str = "") -> I32:
        """The codes of texts, each after ``prefix``, in the dictionary ``into``; (n,)."""
        return told(numbers, lambda own: np.array([into[prefix + self[number]] for number in own.tolist()], np.int32))

    def which(self, numbers: I64, *wanted: str) -> npt.NDArray[np.bool_]:
        """Which of ``numbers`` stand for one of the texts ``wanted``; (n,)."""
        return told(numbers, lambda own: np.array([self[number] in wanted for number in own.tolist()], np.bool_))

    def beginning(self, numbers: I64, *prefixes: str) -> npt.NDArray[np.bool_]:
        """Which of ``numbers`` stand for a text that begins with one of ``prefixes``; (n,)."""
        return told(
            numbers, lambda own: np.array([self[number].startswith(prefixes) for number in own.tolist()], np.bool_)
        )


def enumeration(tables: Tables, *names: str) -> dict[int, str]:
    """The names of an ``ENUM_`` table by number, empty without it."""
    table = tables.find(*names)
    return tables.texts(table, "id", "name") if table else {}
