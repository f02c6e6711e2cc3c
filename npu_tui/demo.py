"""The bundled examples."""

from __future__ import annotations

from pathlib import Path

DEFAULT = "dispatch_bound"
_TRACE = Path("ASCEND_PROFILER_OUTPUT") / "trace_view.json"


def demos() -> dict[str, Path]:
    """The bundled profile directories by name: those of the wheel, or of the checkout in an editable install."""
    here = Path(__file__).resolve().parent
    for folder in (here / "fixtures", here.parent / "fixtures"):
        found = {path.parent.parent.name: path.parent.parent for path in sorted(folder.glob(f"*/{_TRACE}"))}
        if found:
            return found
    return {}
