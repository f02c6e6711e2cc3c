"""Simulated services as they were served: each once, however many figures of it a test compares."""

from __future__ import annotations

import sys
from functools import lru_cache
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "fixtures"))

from service import Service, serve
from service_writer import Folder, latencies

served = lru_cache(maxsize=8)(serve)
"""Nobody changes what it gives; who wants to asks ``serve``."""


def written(service: Service, folder: Path) -> Path:
    """The tables of ``service`` in ``folder``."""
    Folder(served(service)).write(folder)
    return folder


def figure(service: Service, metric: str, share: int) -> float:
    """A percentile of what really came of ``service``, ns."""
    return float(np.percentile(latencies(served(service).requests)[metric], share))
