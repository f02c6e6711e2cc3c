"""What is to be recorded."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct


class RecordRequest(Struct, frozen=True):
    """``steps`` after ``warmup`` more that pass unrecorded, of ``ranks`` (empty: all), into the folder ``out``.

    ``at`` is the step to begin with, None: the next one. ``level`` is that of the profiler, 0 to 2. With ``stack``,
    ``shapes`` or ``memory`` the calls of Python, the shapes of operators, the memory are recorded too.
    ``seconds`` is for servers that count no steps. A state that lasts longer than ``patience`` seconds is given up,
    an analysis after ``analysis`` seconds in which it has written nothing.
    """

    out: Path
    steps: int = 5
    warmup: int = 0
    ranks: tuple[int, ...] = ()
    at: int | None = None
    level: int = 1
    stack: bool = False
    shapes: bool = False
    memory: bool = False
    seconds: float | None = None
    patience: float = 600.0
    analysis: float = 600.0
