"""Tables of samples as curves, with the names and units that a text trace gives them.

A text trace has bandwidths in MB/s (2**20) and memory in KB, a database has bytes.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from npu_tui.ingest.database.columns.whole import F64, Whole
from npu_tui.ingest.database.tables.joins import numbered
from npu_tui.ingest.database.tables.rows import Rows, Table, Tables, plain
from npu_tui.ingest.database.tables.texts import Texts

_KB, _MB, _PERCENT = 1 / 1024, 1 / (1 << 20), 0.01


class Curve(Struct, frozen=True):
    """One value of a row: ``name`` and ``key`` of the curve (with the columns in braces), its columns (summed), and
    what to multiply with.

    ``instance`` tells curves of the same name apart.
    """

    name: str
    key: str
    columns: tuple[str, ...]
    factor: float = 1.0
    instance: str = ""


class SampleTable(Struct, frozen=True):
    """A table of samples: its layer, its curves, the columns that tell rows apart, and those of them that are texts."""

    layer: str
    curves: tuple[Curve, ...]
    apart: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()


def _port(way: str, columns: str) -> tuple[Curve, ...]:
    """The curves of a network port: ``way`` is Rx or Tx."""
    name = f"Port {{funcId}}/{way}"
    return (
        Curve(name, f"{way} Bandwidth(MB/s)", (f"{columns}ByteRate",), _MB),
        Curve(name, f"{way} Packets/s", (f"{columns}PacketRate",)),
        Curve(name, f"{way} Errors", (f"{columns}Errors",)),
        Curve(name, f"{way} Dropped", (f"{columns}Dropped",)),
    )


_NETWORK = (*_port("Rx", "rx"), *_port("Tx", "tx"))

KNOWN: dict[str, SampleTable] = {
    "AICORE_FREQ": SampleTable("AI Core Freq", (Curve("AI Core Freq", "MHz", ("freq",)),)),
    "NPU_MEM": SampleTable(
        "NPU MEM",
        (
            Curve("{type}/DDR", "KB", ("ddr",), _KB),
            Curve("{type}/HBM", "KB", ("hbm",), _KB),
            Curve("{type}/Memory", "KB", ("ddr", "hbm"), _KB),
        ),
        ("type",),
        ("type",),
    ),
    "HBM": SampleTable(
        "HBM", (Curve("HBM {hbmId}/{type}", "{type}(MB/s)", ("bandwidth",), _MB),), ("hbmId", "type"), ("type",)
    ),
    "DDR": SampleTable(
        "DDR",
        (Curve("DDR/Read", "Read(MB/s)", ("read",), _MB), Curve("DDR/Write", "Write(MB/s)", ("write",), _MB)),
    ),
    "LLC": SampleTable(
        "LLC",
        (
            Curve("LLC {llcId} {mode}/Throughput", "Throughput(MB/s)", ("throughput",), _MB),
            Curve("LLC {llcId} {mode}/Hit Rate", "Hit Rate(%)", ("hitRate",), _PERCENT),
        ),
        ("llcId", "mode"),
        ("mode",),
    ),
    "SOC_BANDWIDTH_LEVEL": SampleTable(
        "Stars Soc Info",
        (
            Curve("Mata Bw Level", "Mata Bw Level", ("mataBwLevel",)),
            Curve("L2 Buffer Bw Level", "L2 Buffer Bw Level", ("l2BufferBwLevel",)),
        ),
    ),
    "ACC_PMU": SampleTable(
        "Acc PMU",
        (
            Curve("read_bandwidth", "value", ("readBwLevel",), instance="acc_id {accId}"),
            Curve("write_bandwidth", "value", ("writeBwLevel",), instance="acc_id {accId}"),
            Curve("read_ost", "value", ("readOstLevel",), instance="acc_id {accId}"),
            Curve("write_ost", "value", ("writeOstLevel",), instance="acc_id {accId}"),
        ),
        ("accId",),
    ),
    "QOS": SampleTable(
        "QoS", (Curve("QoS {eventName}", "value", ("bandwidth",), _MB),), ("eventName",), ("eventName",)
    ),
    "HCCS": SampleTable(
        "HCCS",
        (Curve("Tx", "Tx(MB/s)", ("txThroughput",), _MB), Curve("Rx", "Rx(MB/s)", ("rxThroughput",), _MB)),
    ),
    "NIC": SampleTable("NIC", _NETWORK, ("funcId",)),
    "ROCE": SampleTable("RoCE", _NETWORK, ("funcId",)),
    "CPU_USAGE": SampleTable("CPU Usage", (Curve("CPU {cpuId}", "Usage(%)", ("usage",)),), ("cpuId",)),
    "HOST_MEM_USAGE": SampleTable("Memory Usage", (Curve("Memory Usage", "Usage(%)", ("usage",)),)),
    "HOST_DISK_USAGE": SampleTable("Disk Usage", (Curve("Disk Usage", "Usage(%)", ("usage",)),)),
    "HOST_NETWORK_USAGE": SampleTable("Network Usage", (Curve("Network Usage", "Usage(%)", ("usage",)),)),
}

_LAYERS = {"PCIE": "PCIe"}
_TIME = "timestampNs"
_NO_CURVE = frozenset({plain(_TIME), "deviceid"})
_TABLES_OF_THEIR_OWN = frozenset(map(plain, ("NPU_MODULE_MEM", "NPU_OP_MEM", "MEMORY_RECORD", "OP_MEMORY")))


def read_counters(tables: Tables, texts: Texts, whole: Whole) -> None:
    """Take every table of samples in, also one that no version knows yet: its columns are its curves."""
    for key, name in list(tables.names.items()):
        table = tables.find(name)
        if table is None or plain(_TIME) not in table.columns or key in _TABLES_OF_THEIR_OWN:
            continue
        known = next((samples for known, samples in KNOWN.items() if plain(known) == key), None)
        _read(tables, texts, whole, table, known or _unknown(table))


def _unknown(table: Table) -> SampleTable:
    """Every column is a curve, and every column of an id tells curves apart."""
    apart = [
        name for column, name in table.columns.items() if column.endswith(("id", "type")) and column not in _NO_CURVE
    ]
    own = [name for column, name in table.columns.items() if name not in apart and column not in _NO_CURVE]
    suffix = "".join(f" {{{name}}}" for name in apart)
    curves = tuple(Curve(f"{name}{suffix}", name, (name,)) for name in own)
    return SampleTable(_LAYERS.get(table.name, table.name), curves, tuple(apart))


def _read(tables: Tables, texts: Texts, whole: Whole, table: Table, samples: SampleTable) -> None:
    columns = tuple(dict.fromkeys(column for curve in samples.curves for column in curve.columns))
    there = tuple(column for column in columns if plain(column) in table.columns)
    rows = tables.read(table, (_TIME, "deviceId", *samples.apart), there)
    on_device = "deviceid" in table.columns
    keys = [("deviceId", rows["deviceId"]), *((name, rows[name]) for name in samples.apart)]
    for values, own in _apart([values for _, values in keys]):
        device = max(values[0], 0) if on_device else -1
        words = {name: str(value) for (name, _), value in zip(keys, values, strict=True)}
        for name in samples.texts:
            words[name] = _title(texts[int(words[name])])
        pid = whole.process(samples.layer, device, label="NPU" if on_device and device < 0 else "")
        time = rows.time(_TIME)[own]
        for curve in samples.curves:
            if set(curve.columns) <= set(there):
                name, key, instance = (each.format(**words) for each in (curve.name, curve.key, curve.instance))
                whole.samples(pid, name, key, instance, time, _value(rows, curve)[own])


def _value(rows: Rows, curve: Curve) -> F64:
    total = sum((rows.real(column) for column in curve.columns[1:]), rows.real(curve.columns[0]))
    return total * curve.factor


def _apart(columns: list[np.ndarray]) -> list[tuple[list[int], np.ndarray]]:
    """The distinct values of ``columns`` together, each with the places of its rows."""
    key = np.zeros(len(columns[0]), np.int64)
    for values in columns:
        distinct, place = numbered(values)
        key = numbered(key * max(len(distinct), 1) + place)[1]
    order = np.argsort(key, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(key[order])) + 1) if len(order) else []
    return [([int(values[own[0]]) for values in columns], own) for own in groups]


def _title(word: str) -> str:
    """``app`` is ``APP`` in a text trace, ``read`` is ``Read``."""
    return word.upper() if word == "app" else word[:1].upper() + word[1:]
