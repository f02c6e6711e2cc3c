"""Jobs with causes that no rule knows, by a simulator of its own: are they named by line, with the gain of the twin?

    python tests/unforeseen.py [--seeds 20] [NAME…]

Prints for every cause how often an owner of the critical path has its line and its gain within 10 % or 3 % of the step,
how often a finding above info has, and of jobs without a cause how often nothing is said. A cause that gains less than
3 % of the step is one that need not be named.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
for folder in (ROOT, ROOT / "tests"):
    sys.path.insert(0, str(folder))

import unforeseen_jobs  # noqa: E402 - its folder is no package
from measured import profile_at  # noqa: E402

from npu_tui.analysis.code_lines import CodeLine  # noqa: E402
from npu_tui.profile.profile import Profile  # noqa: E402
from npu_tui.rules.model import Finding  # noqa: E402

_NEAR, _OF_STEP = 0.10, 0.03


@dataclass(frozen=True)
class Judged:
    """One cause of one job: ``gain`` and ``step`` in ms; whether an owner and a finding name it rightly."""

    cause: str
    gain: float
    step: float
    owner: bool
    finding: bool


def judge(name: str, seed: int) -> tuple[list[Judged], list[str]]:
    """The causes of the job ``name``, and the ids of the findings above info where it has none."""
    with tempfile.TemporaryDirectory() as folder:
        unforeseen_jobs.write(name, seed, Path(folder))
        truth = json.loads(next(Path(folder).rglob("truth.json")).read_text())
        profile = profile_at(next(path for path in Path(folder).rglob("trace_view.json") if "with" in path.parts))
        told = [each for each in profile.findings.findings if each.severity != "info"]
        rows = [_judged(profile, told, cause, truth["step_ms_with"]) for cause in truth["causes"]]
    return rows, [] if rows else [each.id for each in told]


def _judged(profile: Profile, told: list[Finding], cause: dict[str, Any], step: float) -> Judged:
    gain = cause["gain_ms_per_step"]
    lines = {(_base(cause["file"]), line) for line in cause["lines"] or []} if cause["line"] is not None else set()
    small, path = gain < _OF_STEP * step, profile.critical_paths[0]

    def near(found: float | None) -> bool:
        return found is not None and abs(found / 1e6 - gain) <= max(_NEAR * gain, _OF_STEP * step)

    def named(*at: CodeLine | None) -> bool:
        return not lines or any((_base(line.file), line.line) in lines for line in at if line is not None)

    owners = [] if path.owners is None else path.owners.owners
    return Judged(
        f"{_base(cause['file'])}:{cause['line']}",
        gain,
        step,
        small or any(near(path.gain_of(owner)) and named(owner.where) for owner in owners),
        small or any(near(each.gain_ns) and named(*each.code_lines) for each in told),
    )


def _base(file: str | None) -> str:
    return "" if file is None else file.rsplit("/", 1)[-1]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Causes that no rule knows.")
    parser.add_argument("names", nargs="*", help="which jobs; all without one")
    parser.add_argument("--seeds", type=int, default=20)
    options = parser.parse_args()
    print(f"{'job':26}{'cause':24}{'step ms':>9}{'gain ms':>9}{'owner':>8}{'finding':>9}")
    sums = [0, 0, 0]
    for name in unforeseen_jobs.SITUATIONS:
        if options.names and not any(each in name for each in options.names):
            continue
        rows = [judge(name, seed) for seed in range(1, options.seeds + 1)]
        for number, cause in enumerate(zip(*(causes for causes, _ in rows), strict=True)):
            mean = [sum(getattr(each, key) for each in cause) / len(cause) for key in ("step", "gain")]
            right = [sum(getattr(each, key) for each in cause) for key in ("owner", "finding")]
            sums = [sums[0] + right[0], sums[1] + right[1], sums[2] + len(cause)]
            label = name if not number else ""
            print(
                f"{label:26}{cause[0].cause:24}{mean[0]:9.2f}{mean[1]:9.2f}"
                f"{right[0]:5}/{len(cause)}{right[1]:6}/{len(cause)}",
                flush=True,
            )
        if not rows[0][0]:
            told = sorted({each for _, ids in rows for each in ids})
            print(f"{name:26}{'none':24}quiet in {sum(not ids for _, ids in rows)}/{len(rows)}", *told, flush=True)
    print(f"owners right {sums[0]}, findings right {sums[1]}, of {sums[2]}")


if __name__ == "__main__":
    main()
