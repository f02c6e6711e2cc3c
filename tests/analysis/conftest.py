"""Makes this folder and the simulator importable; the simulator's jobs in random variations."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

for folder in (Path(__file__).resolve().parent, Path(__file__).resolve().parents[2] / "fixtures"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

from samples import Simulated, simulated  # noqa: E402 - its folder is no package

SEEDS = range(52)


@pytest.fixture(scope="session", params=SEEDS)
def variation(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Simulated:
    """Every random variation in turn."""
    return simulated(request.param, tmp_path_factory.mktemp(f"seed{request.param}"))
