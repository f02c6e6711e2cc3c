"""The files beside a trace: tables, statistics and settings of the same profile."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from npu_tui.ingest.companions.csv_blocks import Blocks, parsed_rows
from npu_tui.ingest.companions.documents import Document, read_document
from npu_tui.ingest.companions.reading import Reading, find_file
from npu_tui.ingest.companions.schema import Schema

_INFO = re.compile(r"profiler_info(?:_(\d{1,5}))?\.json")
_LEVEL = re.compile(r"Level(\d)")
_MISSING = ("", "N/A")
_PROFILES = ("_ascend_pt", "_ascend_ms")
_LARGE = 32 << 20


class Companions(Struct, frozen=True):
    """The files in ``folder``, where the events of a trace lie, and the settings of the profiler above it."""

    folder: Path

    def rows(self, name: str, *columns: str) -> Iterator[tuple[str | None, ...]]:
        """The cells of ``columns`` in every row of the CSV file ``name``, blanks and tabs stripped.

        A cell that is empty, ``N/A`` or not there is None. Nothing comes from a file that is missing or cannot be
        read.
        """
        try:
            blocks = Blocks(self.folder / name)
            header = [cell.strip() for cell in blocks.header]
            wanted = [header.index(column) if column in header else -1 for column in columns]
            for block in blocks:
                for cells in parsed_rows(block):
                    if cells:
                        yield tuple(_cell(cells, at) for at in wanted)
        except OSError:
            return

    def has(self, schema: Schema) -> bool:
        """Whether there is a table of ``schema``, readable or not."""
        try:
            return find_file(self.folder, schema.stem, schema.others).exists()
        except OSError:
            return False

    def read(self, schema: Schema) -> Reading:
        """The table of ``schema`` in typed columns, read again each time; what is wrong with it is told with it."""
        from npu_tui.ingest.companions.csv_table import read_table

        return read_table(self.folder, schema)

    def document_state(self, name: str) -> Document:
        """The JSON file ``name`` with what became of it."""
        return read_document(self.folder / name)

    def document(self, name: str) -> Any:
        """The content of the JSON file ``name``, None if it is missing or no JSON."""
        return self.document_state(name).value

    @property
    def info_state(self) -> Document:
        """``profiler_info_<rank>.json`` one directory up, with what became of it."""
        try:
            above = self.folder.resolve().parent.iterdir()
            found = min((file for file in above if _INFO.fullmatch(file.name)), default=None)
        except OSError:
            return Document("missing")
        return Document("missing") if found is None else read_document(found)

    @property
    def profiler_info(self) -> dict[str, Any]:
        """The content of ``profiler_info_<rank>.json``, empty without one."""
        found = self.info_state.value
        return found if isinstance(found, dict) else {}

    @property
    def metadata_state(self) -> Document:
        """``profiler_metadata.json`` one directory up, with what became of it."""
        return read_document(self.folder.resolve().parent / "profiler_metadata.json")

    @property
    def metadata(self) -> Any:
        """The content of ``profiler_metadata.json``, None without one."""
        return self.metadata_state.value

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks whose profiles lie beside this one, its own included, by their ``profiler_info_<rank>.json``."""
        found = set()
        try:
            for profile in self.folder.resolve().parent.parent.iterdir():
                if profile.name.endswith(_PROFILES) and profile.is_dir():
                    matches = (_INFO.fullmatch(file.name) for file in profile.iterdir())
                    found |= {int(match[1]) for match in matches if match is not None and match[1] is not None}
        except OSError:
            pass
        return tuple(sorted(found))

    @property
    def chip(self) -> str | None:
        """What the profile calls its device, such as ``Ascend910B3``; text files do not tell."""
        return None

    @property
    def profiler_level(self) -> int | None:
        """0, 1 or 2 where the settings of the profiler say so."""
        return level_in(self.profiler_info)


def large_tables(folder: Path) -> list[tuple[str, int]]:
    """The tables in ``folder`` that take a while to read, largest first: name and bytes."""
    try:
        sizes = [(path.name, path.stat().st_size) for path in folder.glob("*.csv")]
    except OSError:
        return []
    return sorted(((name, size) for name, size in sizes if size >= _LARGE), key=lambda one: -one[1])


def level_in(info: dict[str, Any]) -> int | None:
    """The level of the profiler that ``info``, a profiler_info file, tells."""
    settings: Any = info
    for key in ("config", "experimental_config", "_profiler_level"):
        settings = settings.get(key) if isinstance(settings, dict) else None
    match = _LEVEL.fullmatch(settings.rpartition(".")[2]) if isinstance(settings, str) else None
    return int(match[1]) if match else None


def _cell(cells: list[str], at: int) -> str | None:
    text = cells[at].strip() if 0 <= at < len(cells) else ""
    return None if text in _MISSING else text
