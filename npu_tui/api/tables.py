"""The tables of a profile or a job, as lazy frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npu_tui.api.errors import told

if TYPE_CHECKING:
    import polars as pl

    from npu_tui.tables.tables import ProfileTables


class Tables:
    """The tables, as lazy frames of polars: ``.collect()`` makes the columns and rows that are asked for.

    Times are int64 ns since the first slice of the trace, ``start_ns`` since 1970; null is unknown, never 0. Texts are
    ``Enum``; ``.cast(pl.String)`` makes them plain.
    """

    _tables: ProfileTables

    def sql(self, query: str) -> pl.DataFrame:
        """The answer to ``query``, SQL of polars over the tables; (rows of the answer, its columns).

        Raises ``Error`` for a wrong query, with the nearest name of a table or column.
        """
        from npu_tui.tables.query import query as answer

        with told():
            return answer(self._tables, query)

    def table(self, name: str) -> pl.LazyFrame:
        """The table ``name``. Raises ``Error`` where there is none, or where it needs a file that is gone."""
        from npu_tui.tables.query import no_table

        with told():
            if name not in self._tables.names:
                raise no_table(name, self._tables)
            return self._tables.lazy(name)

    @property
    def tables(self) -> list[str]:
        """The names of all tables."""
        return self._tables.names

    @property
    def slices(self) -> pl.LazyFrame:
        """Every slice (X event) of the trace; 20 columns."""
        return self.table("slices")

    @property
    def links(self) -> pl.LazyFrame:
        """Every link (flow), one row per pair of source and target; 12 columns."""
        return self.table("links")

    @property
    def launches(self) -> pl.LazyFrame:
        """Every launch of the device with its way from the operation to the kernel; 31 columns."""
        return self.table("launches")

    @property
    def kernels(self) -> pl.LazyFrame:
        """Every kernel with its row of kernel_details.csv; its PMU columns follow; 25 columns and those of the file."""
        return self.table("kernels")

    @property
    def operators(self) -> pl.LazyFrame:
        """Kernels by type and core, as in op_statistic.csv; 9 columns."""
        return self.table("operators")

    @property
    def host_operators(self) -> pl.LazyFrame:
        """Every operation of the framework, as in operator_details.csv; 10 columns."""
        return self.table("host_operators")

    @property
    def collectives(self) -> pl.LazyFrame:
        """Every collective, as in communication.json; 20 columns."""
        return self.table("collectives")

    @property
    def arrivals(self) -> pl.LazyFrame:
        """When every rank of a collective was there, seen from this rank; 7 columns."""
        return self.table("arrivals")

    @property
    def counters(self) -> pl.LazyFrame:
        """Every sample of every counter; 9 columns."""
        return self.table("counters")

    @property
    def steps(self) -> pl.LazyFrame:
        """Every step by device, as in step_trace_time.csv; 18 columns."""
        return self.table("steps")

    @property
    def free(self) -> pl.LazyFrame:
        """Every time a device was free, and who was late; 15 columns."""
        return self.table("free")

    @property
    def findings(self) -> pl.LazyFrame:
        """The findings in the order of work; 17 columns."""
        return self.table("findings")

    @property
    def evidence(self) -> pl.LazyFrame:
        """Every place that proves a finding; 11 columns."""
        return self.table("evidence")

    @property
    def memory(self) -> pl.LazyFrame:
        """Every record of device memory; 6 columns."""
        return self.table("memory")

    @property
    def allocations(self) -> pl.LazyFrame:
        """Every allocation of operator_memory.csv; 8 columns."""
        return self.table("allocations")

    @property
    def apis(self) -> pl.LazyFrame:
        """Calls of CANN by level and name, as in api_statistic.csv; 9 columns."""
        return self.table("apis")

    @property
    def code_lines(self) -> pl.LazyFrame:
        """Lost time by line of user code; 7 columns."""
        return self.table("code_lines")
