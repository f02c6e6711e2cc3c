"""Databases of the profiler: real ones, and those written from text profiles."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from export import export

TEXT = {f"level{level}/rank{rank}": rank for level in (0, 1) for rank in (0, 1)}


@pytest.fixture(scope="session")
def traces() -> Path:
    """The folder of the real profiles."""
    named = os.environ.get("NPU_TUI_TRACES")
    if not named:
        pytest.skip(reason="NPU_TUI_TRACES is not set: it names the folder of the real profiles")
    return Path(named)


@pytest.fixture(scope="session", params=TEXT)
def same_run(
    request: pytest.FixtureRequest, traces: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Path]:
    """A text profile and the database of the same run."""
    rank = TEXT[request.param]
    profile = traces / "text" / f"{request.param}_ascend_pt"
    database = tmp_path_factory.mktemp("export") / f"ascend_pytorch_profiler_{rank}.db"
    export(profile, database, rank)
    return profile, database
