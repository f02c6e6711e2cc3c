"""Simulated jobs from whose host threads something takes the CPU, with the scheduler's recording beside each.

    python tests/thefts.py [--seeds 20]

Prints for every kind of theft how often the right culprit comes first, how often its lost time and its gain are within
10 % of the simulated ones, and how often the same job without the theft says nothing of the CPU.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
for folder in (ROOT, ROOT / "fixtures", ROOT / "tests", ROOT / "tests" / "rules"):
    sys.path.insert(0, str(folder))

from cores import Theft  # noqa: E402 - its folder is no package
from jobs import measured  # noqa: E402
from simulator import simulate  # noqa: E402
from situations import SITUATIONS, Situation  # noqa: E402

from npu_tui.analysis.cpu_time import CpuTime, Culprit  # noqa: E402
from npu_tui.profile.profile import Profile  # noqa: E402
from npu_tui.rules.cpu import cpu  # noqa: E402
from npu_tui.rules.ladder import scale_of  # noqa: E402
from npu_tui.rules.rule import Draft  # noqa: E402
from npu_tui.trace.intervals import covered, difference, intersection, union  # noqa: E402

_JOB = replace(SITUATIONS["healthy"], world_size=1, paired=True, step_end_sync=False, with_stack=False)
JOBS = {
    "level": replace(_JOB, steps=4, layers=3, kernel_ns=60_000),
    "hungry": replace(_JOB, steps=3, kernel_ns=20_000, host_op_ns=40_000),
    "decoding": replace(
        _JOB,
        steps=8,
        decode=True,
        training=False,
        item_sync=True,
        embedding=False,
        kernel_ns=120_000,
        host_op_ns=25_000,
    ),
}
"""Hosts that are hardly faster than the device, slower, and that wait for it after every token."""

THEFTS = {
    "preempted": Theft(every_ns=6_000_000, length_ns=2_500_000),
    "queue": Theft(every_ns=6_000_000, length_ns=2_500_000, thread="queue", name="node_exporter"),
    "irq": Theft("irq", 5_000_000, 1_500_000, name="eth0-rx-3"),
    "softirq": Theft("softirq", 5_000_000, 1_500_000, "queue", "NET_RX"),
    "lock": Theft("lock", 6_000_000, 2_500_000, name="pt_data_pin"),
    "blocked": Theft("blocked", 6_000_000, 2_500_000),
    "throttled": Theft("throttled", 8_000_000, 4_000_000),
}
NEVER = 10**13
_PARTS = {
    "preempted": ("preempted", "woken"), "irq": ("interrupt",), "softirq": ("interrupt",), "lock": ("asleep",),
    "blocked": ("blocked",), "throttled": ("preempted", "woken"),
}  # fmt: skip
_NEAR = 0.1


@dataclass(frozen=True)
class Outcome:
    """One seed, times in ns: what the theft cost by the simulation and by the report, and what leads."""

    culprits: list[Culprit]
    theirs: list[Culprit]
    stolen: int
    said: int
    simulated: int
    total: int
    gain: int | None
    lead: str
    remedied: tuple[str, ...]

    @property
    def right(self) -> bool:
        """Whether the thief comes first among those that are not the threads themselves."""
        others = [row.total for row in self.culprits if row.by != "self" and row not in self.theirs]
        return bool(self.said) and self.said > max(others, default=0)


def outcome(job: Situation, theft: Theft, seed: int) -> Outcome:
    """The job with the theft and without it."""
    situation = replace(job, seed=seed, theft=theft)
    found, remedied = measured(situation), measured(replace(situation, theft=replace(theft, every_ns=NEVER)))
    known = found.cpu
    assert isinstance(known, CpuTime)
    rows = known.culprits(found.dispatch[0].link)
    part = _PARTS[theft.kind]
    theirs = [row for row in rows if row.part in part and _is_thief(row, theft)]
    findings = found.findings.findings
    draft = cpu(found.facts[0])
    return Outcome(
        rows,
        theirs,
        _stolen_while_idle(situation),
        sum(row.total for row in theirs),
        found.facts[0].total - remedied.facts[0].total,
        found.facts[0].total,
        scale_of(found.facts[0]).removed(draft) if isinstance(draft, Draft) else None,
        findings[0].id,
        tuple(row.id for row in _above_info(remedied) if row.id == "HOST.CPU"),
    )


def _above_info(profile: Profile) -> list[object]:
    return [row for row in profile.findings.findings if row.severity != "info"]


def _is_thief(row: Culprit, theft: Theft) -> bool:
    if theft.kind == "throttled":
        return row.by == "idle"
    return theft.kind == "blocked" or theft.name in row.name


def _stolen_while_idle(situation: Situation) -> int:
    """The time of the theft in which the device waited for a launch, by the recording of the simulator."""
    recording = simulate(situation)
    tasks = np.array(
        [(task.start_ns, task.end_ns) for task in recording.tasks if task.op_type or task.is_copy], np.int64
    )
    idle = difference(tasks[:1, 0], tasks[-1:, 1], tasks[:, 0], tasks[:, 1])
    # A task starts when its launch has arrived: the wait for it ends so much earlier on the host.
    waits = idle[1] - idle[0] > 2 * situation.task_gap_ns  # the pause between tasks that are queued is shorter
    idle = idle[0][waits] - situation.dispatch_latency_ns, idle[1][waits] - situation.dispatch_latency_ns
    spans = [span for rows in recording.cpu_spans.values() for span in rows if span.what != "ran"]
    stolen = union(np.array([span.start_ns for span in spans]), np.array([span.end_ns for span in spans]))
    return covered(*intersection(*idle, *stolen))


def near(found: int | None, true: int) -> bool:
    """Whether two times agree within 10 %."""
    return found is not None and abs(found - true) <= _NEAR * max(true, 1)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    options = parser.parse_args()
    print("job       theft      seeds  first  lost<10%  gain<10%  leads  silent without")
    for name, job in JOBS.items():
        for kind, theft in THEFTS.items():
            rows = [outcome(job, theft, seed) for seed in range(1, options.seeds + 1)]
            costly = [row for row in rows if row.simulated > 0.03 * row.total and row.stolen > 0.03 * row.total]
            print(
                f"{name:9} {kind:9} {len(costly):6} {sum(row.right for row in costly):6}"
                f" {sum(near(row.said, row.stolen) for row in costly):9}"
                f" {sum(near(row.gain, row.simulated) for row in costly):9}"
                f" {sum(row.lead == 'HOST.CPU' for row in costly):6} {sum(not row.remedied for row in rows):9}",
                flush=True,
            )
            for row in costly:
                if not (row.right and near(row.said, row.stolen) and near(row.gain, row.simulated)):
                    print(
                        f"    stolen {row.stolen} said {row.said} simulated {row.simulated} gain {row.gain} {row.lead}"
                    )


if __name__ == "__main__":
    main()
