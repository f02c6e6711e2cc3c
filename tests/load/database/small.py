"""A small database with a row of everything that makes a slice, a sample or a link."""

from __future__ import annotations

import sqlite3
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from schema import ENUMS, INDEXES, SCHEMA, create

START = 1_736_405_443_863_674_400
PID, NONE = 4242, 4294967295
LAUNCHES = 40

SMALL: dict[str, Any] = {
    "slices": (1 + 3 * LAUNCHES) + (LAUNCHES + 1) + (LAUNCHES + 1) + 2,
    "tables": (
        "STRING_IDS",
        "TASK",
        "COMPUTE_TASK_INFO",
        "COMMUNICATION_TASK_INFO",
        "COMMUNICATION_OP",
        "CANN_API",
        "PYTORCH_API",
        "CONNECTION_IDS",
        "PYTORCH_CALLCHAINS",
        "NPU_MEM",
        "ENUM_API_TYPE",
        "RANK_DEVICE_MAP",
        "STEP_TIME",
    ),
}


def small_database(path: Path) -> Path:
    """Write a step of launches and one collective to ``path``."""
    path.write_bytes(_content())
    return path


@cache
def _content() -> bytes:
    """The bytes of the database: SQLite takes longer to write them than most tests to read them."""
    with TemporaryDirectory() as folder:
        return _made(Path(folder) / "small.db").read_bytes()


def _made(path: Path) -> Path:
    strings: dict[str, int] = {}

    def text(word: str) -> int:
        return strings.setdefault(word, len(strings))

    rows: dict[str, list[tuple[Any, ...]]] = {name: [] for name in SMALL["tables"]}
    main, queue = PID << 32 | PID, PID << 32 | PID + 1
    end = START + (LAUNCHES + 2) * 100_000

    def python(start: int, last: int, tid: int, link: int | None, name: str, chain: int | None, kind: int) -> None:
        rows["PYTORCH_API"].append(
            (str(start), str(last), tid, link, text(name), -1, 0, text("float"), text("32,64"), chain, kind)
        )

    python(START, end, main, None, "ProfilerStep#7", None, 50001)
    for number in range(LAUNCHES):
        at = START + 100_000 * (number + 1)
        python(at, at + 30_000, main, 3 * number, f"aten::op{number % 7}", number, 50001)
        python(at + 5_000, at + 8_000, main, 3 * number + 1, "Enqueue", None, 50002)
        python(at + 12_000, at + 40_000, queue, 3 * number + 2, f"Dequeue@op{number % 7}", None, 50002)
        connection = 1000 + number
        rows["CONNECTION_IDS"] += [(3 * number, connection), (3 * number + 1, 1 << 20 | number)]
        rows["CONNECTION_IDS"].append((3 * number + 2, 1 << 20 | number))
        rows["PYTORCH_CALLCHAINS"] += [(number, text(f"main.py({number}): train"), 0), (number, text("<module>"), 1)]
        rows["CANN_API"].append((at + 15_000, at + 20_000, 10000, queue, connection, text("launch")))
        kind = text("KERNEL_AIVEC" if number % 2 else "KERNEL_AICORE")
        times = (at + 45_000, at + 65_000)
        rows["TASK"].append((*times, 2, connection, number, PID, kind, NONE, 5, number, NONE))
        texts = [
            text(word) for word in ("AI_CORE", "MatMul", "ND", "FLOAT", '"32,64"', "ND", "FLOAT", '"32,64"', "N/A")
        ]
        rows["COMPUTE_TASK_INFO"].append((text(f"kernel{number % 5}"), number, 8, 0, *texts))
        rows["NPU_MEM"].append((text("app"), 0, 1 << 30, at, 2))
    last = START + 100_000 * (LAUNCHES + 1)
    rows["CANN_API"].append((last, last + 5_000, 10000, queue, 2000, text("launch")))
    group = text("10.0.0.1%eth0_60000")
    rows["COMMUNICATION_OP"].append(
        (text("hcom_allReduce__868_0_1"), last, last + 60_000, 2000, group, 0, 0, 0, 4, text("MESH"), 10, text("a"))
    )
    task = (last + 1_000, last + 50_000, 2, 2000, LAUNCHES, PID, text("SDMA"), 3, 6, 77, NONE)
    rows["TASK"].append(task)
    rows["COMMUNICATION_TASK_INFO"].append(
        (text("hcom_allReduce__868_0_1"), LAUNCHES, text("Memcpy"), 0, group, 1, 65535, 0, 1, 0, 4096, 4, 1, 0)
    )
    rows["RANK_DEVICE_MAP"].append((3, 2))
    rows["STEP_TIME"].append((7, START, end))
    rows["STRING_IDS"] = [(number, word) for word, number in strings.items()]
    rows |= {name: list(values.items()) for name, values in ENUMS.items()}
    with sqlite3.connect(path) as out:
        for statement in create(SCHEMA, INDEXES):
            out.execute(statement)
        for name, own in rows.items():
            out.executemany(f"INSERT INTO {name} VALUES ({','.join('?' * len(own[0]))})", own)
    out.close()
    return path
