"""What a cluster analysis leaves of a job: the steps, collectives, links and groups of all ranks in one folder.

msprof-analyze writes ``cluster_analysis_output``: of text profiles ``cluster_step_trace_time.csv``,
``cluster_communication.json``, ``cluster_communication_matrix.json`` and ``communication_group.json``, of databases
``cluster_analysis.db`` with the same in tables. Steps are in us, collectives in ms, in both. They are described at
https://gitcode.com/Ascend/msprof-analyze (README of ``cluster_analyse``).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from npu_tui.load.companion_schema import State
from npu_tui.load.companions import Companions
from npu_tui.load.database_companions import plain_rows, with_tables
from npu_tui.load.database_rows import DatabaseTables
from npu_tui.load.documents import (
    LINK,
    ROW,
    TOTALS,
    Operation,
    matrix_row,
    members_of,
    read_document,
    read_operations,
    scaled,
    start_ns,
)
from npu_tui.load.formats.cluster import CLUSTER_FILES
from npu_tui.trace.text import decimal_number

DATABASE, STEPS, COLLECTIVES, MATRIX = CLUSTER_FILES
GROUPS = "communication_group.json"
_COLUMNS = ("Step", "Type", "Index", "Computing", "Communication(Not Overlapped)", "Free", "Bubble", "PP Index")
_CELLS = ("step", "type", "index", "computing", "communicationnotoverlapped", "free", "bubble", "ppindex")
"""The same columns of the CSV file and of ``ClusterStepTraceTime``."""

MOST_RANKS = 1 << 15
"""Ranks with steps that are kept."""

_NUMBER = re.compile(r"\d{1,9}")


class ClusterStep(Struct, frozen=True):
    """One step of a rank, in us, as texts or numbers of the writer."""

    step: str
    computing: Any
    exposed: Any
    free: Any
    bubble: Any


class ClusterCall(Struct, frozen=True):
    """One collective of a rank: ``start`` and ``end`` in ns since 1970; ``group`` is the same on all its ranks."""

    step: str
    name: str
    group: str
    start: int
    end: int


class ClusterLink(Struct, frozen=True):
    """What went from one rank of the job to another in an operation: MB, and GB/s."""

    step: str
    group: str
    source: int
    target: int
    transport: str
    size: float | None
    speed: float | None
    operation: str


class Cluster(Struct):
    """What is known of every rank, by rank: its steps, collectives, pipeline stage and host.

    ``groups`` are (name, such as ``tp``, id, ranks). ``links`` have ranks of the job as ends. ``states`` says what
    became of each file that is there.
    """

    steps: dict[int, list[ClusterStep]] = field(default_factory=lambda: defaultdict(list))
    calls: dict[int, list[ClusterCall]] = field(default_factory=lambda: defaultdict(list))
    links: list[ClusterLink] = field(default_factory=list)
    stages: dict[int, int] = field(default_factory=dict)
    groups: list[tuple[str, str, tuple[int, ...]]] = field(default_factory=list)
    hosts: dict[int, str] = field(default_factory=dict)
    states: dict[str, State] = field(default_factory=dict)

    @property
    def ranks(self) -> list[int]:
        """The ranks that steps or collectives are known of."""
        return sorted(self.steps.keys() | self.calls.keys() | {link.source for link in self.links})


def read_cluster(folder: Path) -> Cluster:
    """What the files in ``folder`` hold; where both are there, those of the database count."""
    cluster = Cluster()
    database = folder / DATABASE
    if database.is_file():
        document = with_tables(database, partial(_read_tables, cluster))
        cluster.states[DATABASE] = document.state
    # The database holds all that the text files do, so these are only asked for what it lacks.
    if not cluster.steps:
        companions = Companions(folder)
        _read_step_times(cluster, companions.rows(STEPS, *_COLUMNS))
        _note_file(cluster, folder, STEPS, "cut_off" if companions.cut_off else "read" if cluster.steps else "empty")
    if not cluster.calls:
        document = read_operations(folder / COLLECTIVES, _cluster_calls, lambda _: ROW)
        _note_file(cluster, folder, COLLECTIVES, document.state)
        for rank, call in document.value or ():
            cluster.calls[rank].append(call)
    if not cluster.links:
        document = read_operations(folder / MATRIX, _cluster_links, lambda _: ROW)
        _note_file(cluster, folder, MATRIX, document.state)
        cluster.links += document.value or ()
    if not cluster.groups:
        document = read_document(folder / GROUPS)
        _note_file(cluster, folder, GROUPS, document.state)
        for entry in _dicts_in(members_of(document.value).get("comm_group_parallel_info")):
            _add_group(cluster, entry.get("pg_name"), entry.get("group_id"), entry.get("rank_set"))
    return cluster


def _note_file(cluster: Cluster, folder: Path, name: str, state: State) -> None:
    if (folder / name).is_file():
        cluster.states[name] = state


def _dicts_in(value: Any) -> Iterator[dict[str, Any]]:
    for entry in value if isinstance(value, list) else ():
        if isinstance(entry, dict):
            yield entry


def _cluster_calls(operations: Iterable[Operation]) -> Iterator[tuple[int, ClusterCall]]:
    """The collectives of ranks; the operations lie in the ranks of a group, or its kind, and a step."""
    for kind, step, name, group, body in operations:
        for rank, of_rank in body.items():
            times = members_of(members_of(of_rank).get("Communication Time Info"))
            place = rank, step.removeprefix("step"), name, group or kind
            yield from _cluster_call(place, times.get("Start Timestamp(us)"), times.get("Elapse Time(ms)"))


def _cluster_links(operations: Iterable[Operation]) -> Iterator[ClusterLink]:
    for kind, step, name, group, body in operations:
        for pair, link in body.items():
            cells = [members_of(link).get(title) for title in LINK]
            yield from _link((step.removeprefix("step"), name, group or kind), pair.partition("-")[::2], cells)


def _read_step_times(cluster: Cluster, rows: Iterable[tuple[Any, ...]]) -> None:
    """Steps of ranks; a row of a stage only has the largest times of its ranks, and names those ranks."""
    stages: set[tuple[int, ...]] = set()
    for step, kind, index, computing, exposed, free, bubble, stage in rows:
        ranks = _ranks_in_text(index)
        if str(kind).lower() == "stage":
            stages.add(tuple(sorted(ranks)))
        elif len(ranks) == 1 and (ranks[0] in cluster.steps or len(cluster.steps) < MOST_RANKS):
            cluster.steps[ranks[0]].append(ClusterStep(_text_or_empty(step), computing, exposed, free, bubble))
            if (number := decimal_number(_text_or_empty(stage))) is not None:
                cluster.stages[ranks[0]] = number
    if not cluster.stages and len(stages) > 1 and len(set().union(*stages)) == sum(map(len, stages)):
        cluster.stages |= {rank: place for place, ranks in enumerate(sorted(stages)) for rank in ranks}


def _cluster_call(place: tuple[Any, str, str, str], start: Any, elapsed: Any) -> Iterator[tuple[int, ClusterCall]]:
    rank, step, name, group = place
    begin, length = start_ns(start), scaled(elapsed, 1e6)
    if begin is not None and length is not None and _NUMBER.fullmatch(str(rank)):
        yield int(rank), ClusterCall(step, name, group, begin, begin + length)


def _link(place: tuple[str, str, str], ends: tuple[str, ...], values: list[Any]) -> Iterator[ClusterLink]:
    step, name, group = place
    for row in matrix_row((step, "", name, group), ends, *values):
        *_, source, target, transport, size, _, speed, operation = row
        yield ClusterLink(step, group, source, target, transport or "", size, speed, operation or name)


def _add_group(cluster: Cluster, name: Any, key: Any, ranks: Any) -> None:
    if members := tuple(sorted(set(_ranks_in_text(ranks)))):
        cluster.groups.append((_text_or_empty(name), _text_or_empty(key), members))


def _ranks_in_text(text: Any) -> list[int]:
    """The numbers in a list that is a text, such as ``(0, 1, 2)`` or ``[11, 3]``."""
    return [int(number) for number in _NUMBER.findall(str(text))]


def _text_or_empty(value: Any) -> str:
    return "" if value is None else str(value)


def _read_tables(cluster: Cluster, tables: DatabaseTables) -> bool:
    """Fill ``cluster`` from ``cluster_analysis.db``, by newer or older names of tables; whether it then has ranks."""
    rows = plain_rows(tables, "ClusterStepTraceTime")
    _read_step_times(cluster, [tuple(cells.get(name) for name in _CELLS) for cells in rows])
    for cells in _either(tables, "ClusterCommunicationTime", "ClusterCommAnalyzerTime"):
        if (name := _text_or_empty(cells.get("hcclopname"))) not in TOTALS:
            elapsed = cells.get("elapsedtime", cells.get("elapsetime"))
            for of_rank, call in _cluster_call(
                (cells.get("rankid"), *_collective_place(cells, name)), cells.get("starttimestamp"), elapsed
            ):
                cluster.calls[of_rank].append(call)
    for cells in _either(tables, "ClusterCommunicationMatrix", "ClusterCommAnalyzerMatrix"):
        if (name := _text_or_empty(cells.get("hcclopname"))) not in TOTALS:
            ends = _text_or_empty(cells.get("srcrank")), _text_or_empty(cells.get("dstrank"))
            values = ("transporttype", "transitsize", "transittime", "bandwidth", "opname")
            cluster.links += _link(_collective_place(cells, name), ends, [cells.get(column) for column in values])
    for cells in plain_rows(tables, "CommunicationGroupMapping"):
        _add_group(cluster, cells.get("pgname"), cells.get("groupid"), cells.get("rankset"))
    # ``HostInfo`` names hosts by a number of their own, ``RankDeviceMap`` the host of each rank.
    names = {
        _text_or_empty(cells.get("hostuid")): _text_or_empty(cells.get("hostname"))
        for cells in plain_rows(tables, "HostInfo")
    }
    for cells in plain_rows(tables, "RankDeviceMap"):
        rank, host = decimal_number(_text_or_empty(cells.get("rankid"))), _text_or_empty(cells.get("hostuid"))
        if rank is not None and host:
            cluster.hosts[rank] = names.get(host) or host
    return bool(cluster.ranks)


def _collective_place(cells: dict[str, Any], name: str) -> tuple[str, str, str]:
    """Step, name and group of a collective of the tables; the group may follow the name."""
    name, _, group = name.partition("@")
    return _text_or_empty(cells.get("step")).removeprefix("step"), name, group or _text_or_empty(cells.get("groupname"))


def _either(tables: DatabaseTables, newer: str, older: str) -> Iterator[dict[str, Any]]:
    yield from plain_rows(tables, newer if tables.find(newer) is not None else older)
