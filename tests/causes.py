"""Simulated jobs with one cause each, and the same jobs without it: predicted against simulated gain.

    python tests/causes.py [--seeds 20] [NAME…]

Prints a table: how often the finding leads, how often its gain is within 10 % of the simulated one or 3 % of the step,
and how many findings above info the remedied job has.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
for folder in (ROOT / "fixtures", ROOT / "tests", ROOT / "tests" / "analysis" / "findings"):
    sys.path.insert(0, str(folder))

from jobs import measured  # noqa: E402 - its folder is no package
from situations import Situation, SlowLine  # noqa: E402
from troubled import TROUBLED  # noqa: E402

from npu_tui.analysis.findings.model import Finding  # noqa: E402

_NEAR = 0.10
_OF_STEP = 0.03


@dataclass(frozen=True)
class Cause:
    """A job and what it is without its cause; ``leads`` are the findings that may name it."""

    job: Situation
    remedy: Callable[[Situation], Situation]
    leads: tuple[str, ...]


def _trouble(**values: object) -> Callable[[Situation], Situation]:
    return lambda job: replace(job, trouble=replace(job.trouble, **values))


def _job(**values: object) -> Callable[[Situation], Situation]:
    return lambda job: replace(job, **values)


def _with(job: Situation, **values: object) -> Situation:
    return replace(job, trouble=replace(job.trouble, **values))


#: A job with nothing to say about, and one on four devices.
_CALM = replace(TROUBLED["healthy"], world_size=1)
_JOB = replace(TROUBLED["healthy"], world_size=4, gradient_bytes=2_000_000)
_READING = replace(_CALM, training=False, steps=4)
_SIX = replace(_JOB, steps=6)
_LATE = _with(_JOB, late_peer=2, late_peer_ns=12_000_000)
_IN_TIME = _trouble(late_peer=None)

#: Jobs by name; a name begins with the part of the model that it tries.
CAUSES: dict[str, Cause] = {
    "host: slow fetch": Cause(replace(_CALM, dataloader_ns=40_000_000), _job(dataloader_ns=180_000), ("DATA.LOADER",)),
    "host: slow line": Cause(
        replace(_CALM, step_end_sync=False, slow_lines=(SlowLine("/workspace/vit/model.py", 64, 8_000_000),)),
        _job(slow_lines=()),
        ("HOST.PAUSE", "DISPATCH.VERTICAL", "DISPATCH.FREE", "DISPATCH.STAGE", "DISPATCH.INTERRUPT"),
    ),
    "host: compiling": Cause(
        replace(_CALM, compile_permille=1000, compile_ns=4_500_000), _job(compile_permille=0), ("OP.COMPILE",)
    ),
    "host: collector": Cause(_with(_CALM, collection_ns=40_000_000), _trouble(collection_ns=0), ("PY.GC",)),
    "host: allocation": Cause(_with(_CALM, allocation_ns=2_500_000), _trouble(allocation_ns=0), ("MEM.ALLOC",)),
    "host: step start": Cause(_with(_CALM, setup_ns=15_000_000), _trouble(setup_ns=0), ("STEP.START",)),
    "host: hidden fetch": Cause(
        replace(_CALM, step_end_sync=False, kernel_ns=1_200_000, dataloader_ns=9_000_000, steps=4),
        _job(dataloader_ns=180_000),
        ("DATA.LOADER",),
    ),
    "device: AI CPU": Cause(_with(_CALM, ai_cpu_ns=16_000_000), _trouble(ai_cpu_ns=10_000), ("KERNEL.BOUND",)),
    "device: copies": Cause(replace(_CALM, copy_ns=9_000_000), _job(copy_ns=20_000), ("DATA.COPY",)),
    "peers: one late": Cause(_LATE, _IN_TIME, ("COMM.STRAGGLER",)),
    "peers: two late": Cause(_with(_LATE, late_too=3), _IN_TIME, ("COMM.STRAGGLER",)),
    "peers: another each time": Cause(
        _with(_SIX, late_peer=2, late_peer_ns=12_000_000, late_changes=True), _IN_TIME, ("COMM.STRAGGLER",)
    ),
    "peers: late now and then": Cause(
        _with(_SIX, late_peer=2, late_peer_ns=12_000_000, late_once=True), _IN_TIME, ("COMM.STRAGGLER",)
    ),
    "peers: unseen in a ring": Cause(
        _with(replace(_LATE, world_size=6), neighbours=True), _IN_TIME, ("COMM.STRAGGLER",)
    ),
    "peers: at Level0": Cause(
        replace(_with(_SIX, late_peer=2, late_peer_ns=12_000_000, late_once=True), profiler_level=0),
        _IN_TIME,
        ("COMM.EXPOSED",),
    ),
    "waits: metrics": Cause(
        _with(
            replace(_CALM, training=False, kernel_ns=300_000, host_op_ns=220_000, step_end_sync=False, steps=4),
            metric_reads=3,
        ),
        _trouble(metric_reads=0),
        ("SYNC.HOST",),
    ),
    "waits: launch blocking": Cause(
        _with(replace(_CALM, kernel_ns=300_000), launch_blocking=True), _trouble(launch_blocking=False), ("SYNC.HOST",)
    ),
    "nothing: one device": Cause(_CALM, _trouble(), ()),
    "nothing: four devices": Cause(_JOB, _trouble(), ()),
}


@dataclass(frozen=True)
class Outcome:
    """One seed: lengths are ns per step, ``found`` is the finding that names the cause, None where none does."""

    lead: str
    found: Finding | None
    step: float
    simulated: float
    above_info: tuple[str, ...]
    error: float

    @property
    def predicted(self) -> float:
        """The gain of the finding, 0 without one."""
        return float(self.found.gain_ns or 0) if self.found is not None else 0.0

    @property
    def right(self) -> bool:
        """Whether the gain is close to the simulated one."""
        return abs(self.predicted - self.simulated) <= max(_NEAR * abs(self.simulated), _OF_STEP * self.step)


def outcome(cause: Cause, seed: int) -> Outcome:
    """The job of ``cause`` with and without it."""
    job = replace(cause.job, seed=seed, paired=True)
    before, after = measured(job), measured(cause.remedy(job))
    (_, own), (_, other) = before.profile.replays[0], after.profile.replays[0]
    assert own is not None
    assert other is not None
    findings = before.findings.findings
    named = next((each for each in findings if each.id in cause.leads), None)
    above = tuple(each.id for each in after.findings.findings if each.severity != "info")
    simulated = (own.recorded - other.recorded) / job.steps
    return Outcome(findings[0].id, named, own.recorded / job.steps, simulated, above, own.error)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Predicted against simulated gain.")
    parser.add_argument("names", nargs="*", help="which causes; all without one")
    parser.add_argument("--seeds", type=int, default=20)
    options = parser.parse_args()
    print(
        f"{'cause':24}{'step ms':>9}{'predicted':>11}{'simulated':>11}{'right':>8}{'leads':>8}{'quiet':>8}{'replay':>9}"
    )
    for name, cause in CAUSES.items():
        if options.names and not any(each in name for each in options.names):
            continue
        rows = [outcome(cause, seed) for seed in range(1, options.seeds + 1)]
        count = len(rows)
        leads = sum(not cause.leads or row.lead in cause.leads for row in rows)
        quiet = sum(not row.above_info for row in rows)
        mean = [sum(getattr(row, key) for row in rows) / count / 1e6 for key in ("step", "predicted", "simulated")]
        right = sum(row.right for row in rows) if cause.leads else count
        print(
            f"{name:24}{mean[0]:9.2f}{mean[1]:11.3f}{mean[2]:11.3f}{right:5}/{count}{leads:5}/{count}{quiet:5}/{count}"
            f"{max(row.error for row in rows):9.4f}",
            *sorted({each for row in rows for each in (*row.above_info, row.lead)})[:6],
            flush=True,
        )


if __name__ == "__main__":
    main()
