"""Simulated jobs with one cause each, and the same jobs without it: predicted against simulated gain.

    python tests/causes.py [--seeds 20] [NAME…]
    python tests/causes.py --profiles [FOLDER…]

Prints a table: how often the finding leads, how often its gain is within 10 % of the simulated one or 3 % of the step,
and how many findings above info the remedied job has. With ``--profiles``: the recorded against the replayed run of
every profile below the folders, by default the fixtures and those of NPU_TUI_TRACES.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from msgspec import structs

ROOT = Path(__file__).resolve().parents[1]
for folder in (ROOT, ROOT / "fixtures", ROOT / "tests", ROOT / "tests" / "rules"):
    sys.path.insert(0, str(folder))

from cause import Cause, Job  # noqa: E402 - its folder is no package
from cause_jobs import CAUSES  # noqa: E402
from jobs import measured, rule  # noqa: E402
from measured import profile_at  # noqa: E402
from own_jobs import OWN  # noqa: E402
from uneven_jobs import UNEVEN  # noqa: E402

from npu_tui.load.errors import InputError  # noqa: E402
from npu_tui.rules.facts import Facts  # noqa: E402
from npu_tui.rules.ladder import scale_of  # noqa: E402
from npu_tui.rules.model import Finding  # noqa: E402
from npu_tui.rules.rule import Draft  # noqa: E402

ALL = {**CAUSES, **UNEVEN, **OWN}
_NEAR = 0.10
_OF_STEP = 0.03


@dataclass(frozen=True)
class Outcome:
    """One seed: lengths are ns per step, ``found`` is the finding that names the cause, None where none does."""

    lead: str
    found: Finding | None
    also: tuple[Finding, ...]
    step: float
    simulated: float
    above_info: tuple[str, ...]
    error: float

    @property
    def predicted(self) -> float:
        """The gain of the findings, 0 without one."""
        return float(sum(each.gain_ns or 0 for each in (self.found, *self.also) if each is not None))

    @property
    def right(self) -> bool:
        """Whether the gain is close to the simulated one."""
        return abs(self.predicted - self.simulated) <= max(_NEAR * abs(self.simulated), _OF_STEP * self.step)


def outcome(cause: Cause, seed: int) -> Outcome:
    """The job of ``cause`` with and without it."""
    before, after = measured(_seeded(cause.job, seed)), measured(cause.remedy(_seeded(cause.job, seed)))
    (_, own), (_, other) = before.replays[0], after.replays[0]
    assert own is not None
    assert other is not None
    steps = cause.job[0].steps
    findings = before.findings.findings
    named = next((each for each in findings if each.id in cause.leads), None)
    apart = [each for each in findings if named is not None and each is not named and each.part_of != named.id]
    others = [next((each for each in apart if each.id in names), None) for names in cause.also]
    above = tuple(
        each.id for each in after.findings.findings if each.severity != "info" and each.id not in cause.others
    )
    simulated = (own.recorded - other.recorded) / steps
    if cause.gains_nothing:
        named = None if named is None else structs.replace(named, gain_ns=_alone(before.facts[0], named))
    also = tuple(each for each in others if each is not None)
    return Outcome(findings[0].id, named, also, own.recorded / steps, simulated, above, own.error)


def _alone(facts: Facts, found: Finding) -> int:
    """What the finding gains by itself: its gain on the ladder is what remains after those above it."""
    draft = rule(found.id).check(facts)
    assert isinstance(draft, Draft)
    return round(scale_of(facts).removed(draft) / facts.count)


def _seeded(job: Job, seed: int) -> Job:
    return tuple(replace(each, seed=seed + 1_000 * each.rank, paired=True) for each in job)


def leads(cause: Cause, row: Outcome) -> bool:
    """Whether the right finding leads: of a cause that gains nothing another one."""
    return not cause.leads or (row.lead in cause.leads) is not cause.gains_nothing


def print_replays(folders: list[Path]) -> None:
    """How close each profile below ``folders`` is replayed, device by device."""
    print(f"{'profile':64}{'steps':>6}{'recorded ms':>13}{'replayed ms':>13}{'error':>9}{'linked':>8}  used")
    for found in sorted({trace for folder in folders for trace in _traces(folder)}):
        name = str(found.relative_to(ROOT) if found.is_relative_to(ROOT) else found)
        try:
            replays = profile_at(found).replays
        except InputError as error:
            print(f"{name[-63:]:64}{error}"[:160])
            continue
        if not replays:
            print(f"{name[-63:]:64}{'':6}{'':13}{'':13}{'':9}{'':8}  nothing to replay: no device in the file")
        for device, replay in replays:
            label = f"{name} device {device.device}" if len(replays) > 1 else name
            if replay is None:
                print(f"{label[-63:]:64}{'':6}{'':13}{'':13}{'':9}{'':8}  intervals: no launch leads to the device")
                continue
            steps, used = replay.steps, "replay" if replay.trusted else "intervals: not within 2 %"
            print(
                f"{label[-63:]:64}{steps:6}{replay.recorded / steps / 1e6:13.3f}{replay.replayed / steps / 1e6:13.3f}"
                f"{replay.error:9.4%}{replay.model.linked:8.1%}  {used}",
                flush=True,
            )


def _traces(folder: Path) -> list[Path]:
    patterns = (
        "trace_view.json",
        "trace_view.json.gz",
        "*.pt.trace.json",
        "msprof_*.json",
        "ascend_pytorch_profiler*.db",
        "chrome_generic/*.json",
    )
    return sorted({path for pattern in patterns for path in folder.rglob(pattern) if path.name != "truth.json"})


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Predicted against simulated gain.")
    parser.add_argument("names", nargs="*", help="which causes or folders; all without one")
    parser.add_argument("--profiles", action="store_true", help="replay profiles instead of simulated jobs")
    parser.add_argument("--seeds", type=int, default=20)
    options = parser.parse_args()
    if options.profiles:
        own = [ROOT / "fixtures", *map(Path, filter(None, [os.environ.get("NPU_TUI_TRACES")]))]
        print_replays([Path(name).resolve() for name in options.names] or own)
        return
    print(
        f"{'cause':28}{'step ms':>9}{'predicted':>11}{'simulated':>11}{'right':>8}{'leads':>8}{'quiet':>8}{'replay':>9}"
    )
    for name, cause in ALL.items():
        if options.names and not any(each in name for each in options.names):
            continue
        rows = [outcome(cause, seed) for seed in range(1, options.seeds + 1)]
        count = len(rows)
        first = sum(leads(cause, row) for row in rows)
        quiet = sum(cause.gains_nothing or not row.above_info for row in rows)
        mean = [sum(getattr(row, key) for row in rows) / count / 1e6 for key in ("step", "predicted", "simulated")]
        right = sum(row.right for row in rows) if cause.leads else count
        print(
            f"{name:28}{mean[0]:9.2f}{mean[1]:11.3f}{mean[2]:11.3f}{right:5}/{count}{first:5}/{count}{quiet:5}/{count}"
            f"{max(row.error for row in rows):9.4f}",
            *sorted({each for row in rows for each in (*row.above_info, row.lead)})[:6],
            flush=True,
        )


if __name__ == "__main__":
    main()
