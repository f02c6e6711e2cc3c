"""Pairs to compare of every kind, simulated into a folder: services, memory snapshots, jobs, jobs of roles."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), *(str(ROOT / folder) for folder in ("tests/jobs", "fixtures"))]

from job_pairs import DIFFERENCES, pair  # noqa: E402 - its folder is no package
from made_roles import colocated  # noqa: E402
from roles import write_roles  # noqa: E402
from service_causes import write_service  # noqa: E402
from snapshot import write_snapshot  # noqa: E402

from npu_tui.jobs.job import Job  # noqa: E402
from npu_tui.jobs.kept import SUFFIX  # noqa: E402
from npu_tui.jobs.summary import write_summary  # noqa: E402

_SERVICES = ("scheduler", "model", "mix", "prefix", "healthy")
_SNAPSHOTS = ("leak", "fragmentation", "oom", "peak")
_JOBS = {
    **{name: (name, {}) for name in DIFFERENCES},
    "no groups": ("network twice as slow", {"groups": False}),
    "one step": ("one rank 10% slower", {"steps": 1}),
    "two steps": ("one stage 10% slower", {"steps": 2}),
}
"""Differences of the pairs of jobs, and how they are simulated."""

Sides = tuple[Path, Path]


def simulated_pairs(folder: Path) -> dict[str, Sides]:
    """Write all pairs below ``folder``: the base and the new side by name."""
    pairs: dict[str, Sides] = {}
    for cause in ("healthy", *_SERVICES):
        side = "base" if cause == "healthy" and not pairs else cause
        write_service(folder / "services" / side, cause, 1 if side == "base" else 2, 60)
        pairs[f"service-{side}"] = folder / "services/base", folder / "services" / side
    for cause in ("healthy", *_SNAPSHOTS):
        write_snapshot(folder / "memory" / cause / "snapshot.pkl", cause)
        pairs[f"memory-{cause}"] = folder / "memory/healthy/snapshot.pkl", folder / "memory" / cause / "snapshot.pkl"
    for name, (difference, options) in _JOBS.items():
        found = pair(difference, 8, 1, **options)
        sides = [_job(folder / "jobs" / name.replace(" ", "_") / side, job)
                 for side, job in (("base", found.base), ("new", found.new))]  # fmt: skip
        pairs[f"job-{name.replace(' ', '_')}"] = sides[0], sides[1]
    divided = _job(folder / "jobs/sixteen", pair("nothing", 16, 1).base)
    pairs["job-divided_otherwise"] = divided, pairs["job-one_stage_10%_slower"][1]
    lacking = pair("nothing", 8, 1).new
    pairs["job-lacks_a_rank"] = pairs["job-nothing"][0], _job(folder / "jobs/lacking", lacking, 3)
    for more in (0.0, 9.0):
        work = colocated(lambda step, rank, more=more: more * rank, 2, 5, spread=0.2, after=(("actor_update", 25.0),))
        write_roles(folder / "roles" / f"{more:g}", work)
    pairs["job-roles"] = folder / "roles/0", folder / "roles/9"
    return pairs


def _job(folder: Path, job: Job, lacks: int | None = None) -> Path:
    """The summaries of the ranks of ``job`` in ``folder``, but for the rank that it ``lacks``."""
    folder.mkdir(parents=True)
    for profile in job.ranks:
        if profile.rank != lacks:
            write_summary(profile, folder / f"{profile.rank}{SUFFIX}")
    return folder
