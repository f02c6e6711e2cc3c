"""Two loadings of one trace, compared in everything but where its events lie."""

from __future__ import annotations

import dataclasses

import numpy as np

from npu_tui.load.args import json_args
from npu_tui.trace.model import Trace

LAID_OUT = ("chunks", "files", "path", "args", "folded", "known", "roles", "communication", "copies", "held")


def assert_same(first: object, second: object, where: str = "trace") -> None:
    """Every column to the bit, every name, lane and count."""
    names = (
        [field.name for field in dataclasses.fields(first)]
        if isinstance(first, Trace)
        else getattr(first, "__struct_fields__", ())
    )
    if names:
        assert type(first) is type(second), where
        for name in names:
            if name not in LAID_OUT:
                assert_same(getattr(first, name), getattr(second, name), f"{where}.{name}")
    elif isinstance(first, np.ndarray):
        assert isinstance(second, np.ndarray), where
        assert first.dtype == second.dtype, where
        assert np.array_equal(first, second, equal_nan=first.dtype.kind == "f"), where
    else:
        assert first == second, where


def assert_same_folds(known: Trace, copy: Trace) -> None:
    """What a copy knows of lanes is what is found out of the trace itself."""
    assert copy.roles == known.roles
    for row, rows in copy.folded.items():
        for column in ("offset", "item", "start", "end"):
            assert np.array_equal(getattr(known.folded[row], column), getattr(rows, column)), (row, column)
        assert np.array_equal(np.diff(known.folded[row].busy), np.diff(rows.busy)), row


def assert_same_events(first: Trace, second: Trace, step: int = 1) -> None:
    """Every ``step``-th event is found again with the same bytes."""
    for ordinal in range(0, sum(first.events.values()), step):
        assert json_args(first).event_bytes(ordinal) == json_args(second).event_bytes(ordinal)
