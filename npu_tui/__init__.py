"""npu-tui: the trace explorer for Ascend NPUs that lives in the terminal."""

from __future__ import annotations

__version__ = "0.1.0"
