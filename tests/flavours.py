"""What the user sees of every writer and every malformation, as a Markdown table: `python tests/flavours.py`."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
sys.path.insert(0, str(FIXTURES))

from malformed import MALFORMATIONS  # noqa: E402 - its folder is no package
from small_trace import SLICES, small_trace  # noqa: E402

from npu_tui.load.errors import InputError  # noqa: E402
from npu_tui.load.load import load  # noqa: E402
from npu_tui.output.report_tables import health_lines  # noqa: E402
from npu_tui.profile.profile import Profile  # noqa: E402
from npu_tui.strings import words  # noqa: E402
from npu_tui.trace.model import Trace  # noqa: E402


@dataclass(frozen=True)
class Flavour:
    """One row: what was opened, what is said about it, and how many of its slices are kept of how many.

    ``least`` is how many of them must be kept.
    """

    name: str
    what: str
    seen: str
    kept: int
    whole: int
    least: int

    @property
    def share(self) -> str:
        return f"{min(self.kept / self.whole, 1):.0%}" if self.whole else "none"


def writers() -> Iterator[Flavour]:
    """A row per trace of the fixtures."""
    for file in sorted(FIXTURES.rglob("truth.json")):
        truth = json.loads(file.read_text(encoding="utf-8"))
        if "events" not in truth:
            continue
        names = truth["files"] if isinstance(truth.get("files"), list) else [""]
        for name in names:
            path = file.parent / name
            trace = load(path)
            whole = truth.get("slices", truth["events"]["X"])
            what = ", ".join(dict.fromkeys(layer.name for layer in trace.layers if layer.lanes))
            yield Flavour(str(path.relative_to(FIXTURES)), what, headline(trace), len(trace.slices), whole, whole)


def malformations() -> Iterator[Flavour]:
    """A row per malformation of the small trace."""
    for malformation in MALFORMATIONS:
        damaged = malformation.damage(small_trace())
        files = damaged if isinstance(damaged, dict) else {"trace_view.json": damaged}
        kept, seen = 0, []
        with tempfile.TemporaryDirectory() as folder:
            for name, content in files.items():
                path = Path(folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            parts = len(files) > 1 and all("/" not in name for name in files)
            for path in [Path(folder)] if parts else [Path(folder) / name for name in files]:
                try:
                    trace = load(path)
                except InputError as error:
                    seen.append(words(error.message).replace(f"{folder}/", "").replace(folder, "."))
                else:
                    kept += len(trace.slices)
                    seen.append(headline(trace))
        ranks = 1 if parts else len(files)
        said = "; ".join(dict.fromkeys(seen))
        whole = malformation.kept if parts else SLICES * ranks
        yield Flavour(malformation.id, malformation.wrong, said, kept, whole, malformation.kept)


def headline(trace: Trace) -> str:
    """The first thing that trace health says beyond the count of events."""
    return health_lines(Profile(trace))[1]


@cache
def rows() -> tuple[Flavour, ...]:
    """All rows."""
    return *writers(), *malformations()


def table() -> str:
    """All rows as Markdown."""
    lines = ["| input | what it is | what the user sees | slices kept |", "|---|---|---|---|"]
    for row in rows():
        cells = (row.name, row.what, row.seen, f"{row.share} ({row.kept} of {row.whole})")
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
