"""Simulated services as they were served: each once, however many figures of it a test compares."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from kept import kept

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "fixtures"))

from service import Service, serve
from service_causes import Trouble
from service_writer import Folder, latencies

of_services = pytest.mark.reached_from(
    "npu_tui/rules/service", "npu_tui/rules/rule.py", "npu_tui/rules/model.py", "npu_tui/analysis/service",
    "npu_tui/analysis/limits.py", "npu_tui/load/service", "npu_tui/trace/service", "fixtures/service", "tests/serv",
)  # fmt: skip
"""Of rules that judge services, which are two thirds of their room: a quick run asks them if one of these differs."""

served = lru_cache(maxsize=8)(kept(serve))
"""Nobody changes what it gives; who wants to asks ``serve``."""


@kept
def _tables(service: Service, *, old: bool = False, **more: bool) -> dict[str, bytes]:
    """The files of ``service`` by their names."""
    with TemporaryDirectory() as folder:
        Folder(served(service), old=old).write(Path(folder), **more)
        return {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}


def written(service: Service, folder: Path, **options: bool) -> Path:
    """The tables of ``service`` in ``folder``, ``old`` ones, or with ``trace`` or ``database`` its events as well."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in _tables(service, **options).items():
        (folder / name).write_bytes(content)
    return folder


def figure(service: Service, metric: str, share: int) -> float:
    """A percentile of what really came of ``service``, ns."""
    return float(np.percentile(latencies(served(service).requests)[metric], share))


def shortened(trouble: Trouble, requests: int) -> Trouble:
    """``trouble`` and its twin with the first ``requests`` only."""
    twin = None if trouble.remedied is None else replace(trouble.remedied, requests=requests)
    return replace(trouble, service=replace(trouble.service, requests=requests), remedied=twin)
