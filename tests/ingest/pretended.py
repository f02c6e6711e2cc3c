"""Workers that live in this process and answer in an order drawn by lot."""

from __future__ import annotations

import io
import random
from typing import Any

import numpy as np
import numpy.typing as npt

from npu_tui.ingest.json.columns.event_columns import Columns
from npu_tui.ingest.json.columns.range_columns import RangeColumns, unpacked
from npu_tui.ingest.json.reading.worker import Pack, Task, answer
from npu_tui.ingest.json.reading.workers import Workers


class PretendedWorkers(Workers):
    """Everything of ``Workers`` but the processes: each part goes through bytes as it would through a pipe."""

    def __init__(self, count: int, seed: int = 0) -> None:
        self._columns = [Columns() for _ in range(count)]
        self._waiting: list[list[tuple[Task | Pack, bytes]]] = [[] for _ in range(count)]
        self._lot = random.Random(seed)
        self.parts = self  # type: ignore[assignment]
        self.asked = 0

    def __len__(self) -> int:
        return len(self._columns)

    def ask(self, worker: int, task: Task | Pack, *columns: npt.NDArray[Any]) -> None:
        self._waiting[worker].append((task, b"".join(np.asarray(column).tobytes() for column in columns)))
        self.asked += 1

    def get(self, timeout: float | None = None) -> tuple[int, RangeColumns]:
        worker = self._lot.choice([i for i, waiting in enumerate(self._waiting) if waiting])
        out = io.BytesIO()
        task, columns = self._waiting[worker].pop(0)
        answer(task, self._columns[worker], io.BytesIO(columns), out)
        out.seek(0)
        head = out.read(int.from_bytes(out.read(8), "little"))

        def fill(buffer: memoryview) -> None:
            assert out.readinto(buffer) == len(buffer)

        return worker, unpacked(head, fill)

    def close(self) -> None:
        pass
