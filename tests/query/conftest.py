"""Where the real profiles are that only these tests read."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))  # after that of the tests, whose conftest is imported by name


@pytest.fixture(scope="session")
def traces() -> Path:
    """The folder of the real profiles."""
    folder = os.environ.get("NPU_TUI_TRACES")
    if not folder:
        pytest.skip(reason="NPU_TUI_TRACES is not set: it names the folder of the real profiles")
    return Path(folder).resolve()
