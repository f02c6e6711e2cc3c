"""Makes this folder and the writers of fixtures importable."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2] / "fixtures")]
