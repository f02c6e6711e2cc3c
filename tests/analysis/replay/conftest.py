"""Makes the simulated jobs importable."""

from __future__ import annotations

import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[2]
for folder in (TESTS / "rules", TESTS, TESTS.parent / "fixtures"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
