"""All tables of one profile, or of the profiles of a job, each made when it is first asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import TYPE_CHECKING

from npu_tui.jobs.tables import RANKS
from npu_tui.profile.profile import Profile
from npu_tui.profile.table import Kind, Sheet
from npu_tui.tables.scan import Scan, filled, kinds_of
from npu_tui.tables.schema import ONE_PROFILE, TABLES
from npu_tui.trace.once import once

if TYPE_CHECKING:
    import polars as pl

    from npu_tui.jobs.job import Job


class ProfileTables:
    """The tables of ``profiles``, which are opened when a query needs them; ``job`` tells of several ranks.

    A table has the rows of all profiles one below the other; ``rank`` tells them apart. ``ranks`` is there with ``job``
    only. Where a table needs args and the file of the trace is gone, asking for it raises ``InputError``.
    """

    def __init__(self, profiles: Callable[[], Sequence[Profile]], job: Callable[[], Job] | None = None) -> None:
        self._profiles = profiles
        self._made_job = job
        self._scans: dict[str, Scan] = {}
        self._lock = Lock()

    @once
    def profiles(self) -> Sequence[Profile]:
        """The profiles."""
        return self._profiles()

    @once
    def job(self) -> Job:
        """The job; raises ``KeyError`` for one profile alone."""
        if self._made_job is None:
            raise KeyError(RANKS.id)
        return self._made_job()

    @property
    def names(self) -> list[str]:
        """The tables that are there, in the order of the schema."""
        return list(ONE_PROFILE if self._made_job is None else TABLES)

    def lazy(self, name: str) -> pl.LazyFrame:
        """The table ``name``, one of ``names``, as a lazy frame; a column is made when a query needs it."""
        return self._scan(name).lazy()

    def rows(self, name: str) -> int:
        """How many rows the table ``name`` has."""
        return sum(sheet.rows for sheet in self._scan(name).sheets)

    def columns(self, name: str) -> dict[str, Kind]:
        """The columns of the table ``name`` with their kinds, those from files beside the trace last."""
        return self._scan(name).kinds

    def _scan(self, name: str) -> Scan:
        with self._lock:
            if name not in self._scans:
                sheets = self._sheets(name)
                kinds = kinds_of(TABLES[name], sheets)
                self._scans[name] = Scan(name, filled(sheets, kinds), kinds)
            return self._scans[name]

    def _sheets(self, name: str) -> list[Sheet]:
        table = TABLES[name]
        return [table.make(self.job)] if table is RANKS else [table.make(each) for each in self.profiles]


def tables_of(profile: Profile) -> ProfileTables:
    """The tables of one profile."""
    return ProfileTables(lambda: [profile])
