"""npu-tui: the trace explorer for Ascend NPUs that lives in the terminal.

In Python: ``npu_tui.open(path)`` is a profile with its tables, ``npu_tui.open_job(folder)`` all ranks of a run; see
``npu_tui.api``, which is imported when one of its names is asked for.
"""

from __future__ import annotations

from importlib import import_module

__version__ = "0.2.0"

__all__ = ["Comparison", "Error", "Job", "Profile", "Report", "Timeline", "open", "open_job"]


def __getattr__(name: str) -> object:
    if name in __all__:
        return getattr(import_module("npu_tui.api"), name)
    raise AttributeError(f"module 'npu_tui' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*(name for name in globals() if name.startswith("__")), *__all__])
