"""Traces in which a clock jumps: from a moment on all times of one side, or of one thread, are others.

python tests/attack/clock_jumps.py TRACE_VIEW.json OUT.json SIDE MILLISECONDS PLACE
"""

from __future__ import annotations

import json
import sqlite3
import sys
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

HOST = ("Python", "CANN")
TABLES = {"host": ("PYTORCH_API", "CANN_API"), "device": ("TASK", "COMMUNICATION_OP")}


def jump(events: list[dict[str, Any]], side: str, by_ms: int, place: float) -> list[dict[str, Any]]:
    """``events`` with a clock that jumps at ``place``: that of the host, of the device or of the busiest thread."""
    of_host = {e["pid"] for e in events if e["name"] == "process_name" and e["args"]["name"] in HOST}
    moved = [e for e in events if "ts" in e and (e["pid"] in of_host) == (side != "device")]
    if side == "thread":
        thread = Counter(e["tid"] for e in moved if e["ph"] == "X").most_common(1)[0][0]
        moved = [e for e in moved if e["tid"] == thread]
    times = sorted(Decimal(str(e["ts"])) for e in moved if e["ph"] == "X")
    moment, by = times[0] + (times[-1] - times[0]) * Decimal(str(place)), Decimal(by_ms * 1000)
    for event in moved:
        time, length = Decimal(str(event["ts"])), Decimal(str(event.get("dur", 0)))
        if time >= moment:
            event["ts"] = str(time + by)
        elif event["ph"] == "X" and time + length > moment:
            event["dur"] = float(max(length + by, Decimal(0)))
    return events


def jump_in(database: Path, side: str, by_ms: int, place: float) -> None:
    """The same in a database."""
    with sqlite3.connect(database) as base:
        every = " UNION ALL ".join(f"SELECT startNs + 0 AS time FROM {table}" for table in TABLES[side])
        low, high = base.execute(f"SELECT min(time), max(time) FROM ({every})").fetchone()
        moment, by = low + int((high - low) * place), by_ms * 10**6
        for table in TABLES[side]:
            base.execute(
                f"UPDATE {table} SET startNs = startNs + (startNs >= {moment}) * {by}, endNs = CASE"
                f" WHEN startNs >= {moment} THEN endNs + {by}"
                f" WHEN endNs >= {moment} THEN max(endNs + {by}, startNs + 0) ELSE endNs END"
            )
    base.close()


def main() -> None:
    """The command."""
    read, written, side, by_ms, place = sys.argv[1:]
    Path(written).write_text(json.dumps(jump(json.loads(Path(read).read_text()), side, int(by_ms), float(place))))


if __name__ == "__main__":
    main()
