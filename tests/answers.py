"""Every JSON answer of every fixture and real profile, kept in a folder, and how two such folders differ.

    python tests/answers.py write FOLDER [--checkout DIR]   # the answers of this checkout, or of another one
    python tests/answers.py write FOLDER --only compare     # those of one command; comparisons in every format
    python tests/answers.py differ BEFORE AFTER             # what differs: figures first, then worded texts

``NPU_TUI_TRACES`` names the folder of the real profiles. A change of the code that should change no figure is held
against the answers of the commit before it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from answer_pairs import simulated_pairs

ROOT = Path(__file__).resolve().parents[1]

WORDED = frozenset(
    {"title", "detail", "advice", "note", "text", "reason", "warnings", "why", "notes", "verdict", "not_checked"}
)
"""Fields whose strings are sentences: they may be worded anew, figures may not change."""

LIMITS = ("--max-free", "10%", "--max-lost", "5%", "--max-exposed-communication", "20%", "--fail-on", "high")


def commands() -> dict[str, list[str]]:
    """The command line of every answer by the name of its file; a path of a profile stands in it as it is."""
    fixtures = sorted(path.parent for path in (ROOT / "fixtures").glob("*/truth.json"))
    profiles = {f"fixture-{path.name}": path for path in fixtures}
    jobs = {"fixture-two_ranks": ROOT / "fixtures" / "two_ranks"}
    pairs = {"fixtures": (ROOT / "fixtures" / "healthy", ROOT / "fixtures" / "dispatch_bound")}
    profiles |= {"fixture-lines": ROOT / "fixtures/chrome_generic/lines.json"}
    if traces := os.environ.get("NPU_TUI_TRACES"):
        real = Path(traces)
        for path in sorted([*real.glob("*/level?/rank?_ascend_pt"), *real.glob("job4/rank_?_ascend_pt")]):
            profiles["real-" + "-".join(path.relative_to(real).parts)] = path
        for pattern in ("single_card/trace_view.json", "gpu/*.json.gz", "inference/*/*.json.gz", "aclgraph/*.json"):
            profiles |= {f"real-{path.parent.name}-{path.name}": path for path in sorted(real.glob(pattern))}
        jobs |= {f"real-{name.replace('/', '-')}": real / name
                 for name in ("text/level0", "text/level1", "db/level0", "db/level1", "job4", "cluster")}  # fmt: skip
        for kind in ("text", "db"):
            for level in ("level0", "level1"):
                folder = real / kind / level
                pairs[f"{kind}-{level}"] = (folder / "rank0_ascend_pt", folder / "rank1_ascend_pt")
        pairs["text-db"] = (real / "text/level1/rank0_ascend_pt", real / "db/level1/rank0_ascend_pt")
        pairs["levels"] = (real / "text/level0/rank0_ascend_pt", real / "text/level1/rank0_ascend_pt")
    lines: dict[str, list[str]] = {}
    for name, path in profiles.items():
        for command, more in (("report", ()), ("whatif", ()), ("check", LIMITS)):
            lines[f"{command}-{name}"] = [command, str(path), *more]
    lines |= {f"ranks-{name}": ["ranks", str(path)] for name, path in jobs.items()}
    lines |= {f"check-job-{name}": ["check", str(path), "--max-rank-wait", "5%"] for name, path in jobs.items()}
    lines |= {f"compare-{name}": ["compare", str(base), str(new)] for name, (base, new) in pairs.items()}
    return lines


def comparisons(simulated: Path) -> dict[str, list[str]]:
    """The command lines of comparisons of every kind, in every format; most pairs are ``simulated`` into a folder."""
    pairs = {name: (words[1], words[2]) for name, words in commands().items() if words[0] == "compare"}
    pairs |= {
        f"compare-{name}": (str(ROOT / "fixtures" / base), str(ROOT / "fixtures" / new))
        for name, base, new in (
            ("communication", "healthy", "communication_bound"), ("unlike", "healthy", "mindspore"),
            ("ranks", "two_ranks/rank0_ascend_pt", "two_ranks/rank1_ascend_pt"),
        )
    }  # fmt: skip
    if traces := os.environ.get("NPU_TUI_TRACES"):
        pairs |= {
            f"compare-{name}": (f"{traces}/{base}", f"{traces}/{new}")
            for name, base, new in (
                ("jobs-levels", "text/level0", "text/level1"), ("jobs-cluster", "cluster", "cluster"),
                ("memory-real", "memory/snapshot_expandable.pkl", "memory/snapshot_with_empty_cache.pkl"),
                ("memory-memscope", "memory/memscope_leaks.csv", "memory/memscope_baseline.csv"),
            )
        }  # fmt: skip
    pairs |= {f"compare-{name}": (str(base), str(new)) for name, (base, new) in simulated_pairs(simulated).items()}
    forms = ("json", "text", "markdown", "html")
    return {f"{name}-{form}": ["compare", *sides, "--format", form] for name, sides in pairs.items() for form in forms}


def write(folder: Path, checkout: Path, only: str | None = None) -> None:
    """Run every command, or one, with the package of ``checkout``.

    An answer that fails keeps its exit code and its words.
    """
    folder.mkdir(parents=True, exist_ok=True)
    environment = os.environ | {"PYTHONPATH": str(checkout), "LC_ALL": "C.UTF-8", "NPU_TUI_LANG": "en"}
    environment["NPU_TUI_SCHEMA"] = "1"  # which every version of the program writes

    def answer(name: str, words: list[str]) -> None:
        form = () if "--format" in words else ("--format", "json")
        words = [sys.executable, "-m", "npu_tui", *words, *form, "--lang", "en"]
        if words[3] in ("report", "whatif", "check", "compare"):
            words.append("--no-cache")
        done = subprocess.run(words, capture_output=True, text=True, env=environment, cwd="/")
        said, errors = (text.replace(simulated, "SIMULATED") for text in (done.stdout, done.stderr))
        try:
            found = json.loads(said)
        except ValueError:
            found = {"exit": done.returncode, "text": (said + errors).strip()}
        (folder / f"{name}.json").write_text(json.dumps(found, indent=1, ensure_ascii=False))

    with ThreadPoolExecutor(2) as pool, TemporaryDirectory() as simulated:
        lines = commands() | comparisons(Path(simulated))
        chosen = {name: words for name, words in lines.items() if only in (None, words[0])}
        list(pool.map(lambda item: answer(*item), chosen.items()))


def differences(before: Any, after: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """The fields in which two documents differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys([*before, *after]):
            yield from differences(before.get(key), after.get(key), f"{path}.{key}" if path else key)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for place, (left, right) in enumerate(zip(before, after, strict=True)):
            yield from differences(left, right, f"{path}[{place}]")
    elif before != after:
        yield path, before, after


def is_worded(path: str, before: Any, after: Any) -> bool:
    """Whether a difference is one of words alone."""
    key = path.rpartition(".")[2].partition("[")[0]
    words = key in WORDED or (key == "name" and ".evidence[" in path)  # what a place is called
    return words and isinstance(before, str) and isinstance(after, str)


def differ(before: Path, after: Path) -> int:
    """Print what differs; the exit code is 1 where a figure does."""
    names = sorted({path.name for folder in (before, after) for path in folder.glob("*.json")})
    figures, words = 0, Counter[tuple[str, str]]()
    for name in names:
        left, right = (json.loads((folder / name).read_text()) if (folder / name).exists() else None
                       for folder in (before, after))  # fmt: skip
        for path, old, new in differences(left, right):
            if is_worded(path, old, new):
                words[old, new] += 1
            else:
                figures += 1
                shown = [json.dumps(value, ensure_ascii=False)[:300] for value in (old, new)]
                print(f"{name}: {path}\n  - {shown[0]}\n  + {shown[1]}")
    print(f"{len(names)} answers, {figures} figures differ, {sum(words.values())} worded texts ({len(words)} kinds)")
    for (old, new), count in words.most_common():
        print(f"{count} x\n  - {old}\n  + {new}")
    return 1 if figures else 0


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    commands = parser.add_subparsers(dest="command", required=True)
    writing = commands.add_parser("write")
    writing.add_argument("folder", type=Path)
    writing.add_argument("--checkout", type=Path, default=ROOT)
    writing.add_argument("--only", metavar="COMMAND")
    comparing = commands.add_parser("differ")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    options = parser.parse_args()
    if options.command == "write":
        write(options.folder, options.checkout.resolve(), options.only)
        return 0
    return differ(options.before, options.after)


if __name__ == "__main__":
    sys.exit(main())
