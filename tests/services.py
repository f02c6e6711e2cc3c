"""Simulated services with one trouble each: is it named first, do its parts add up, is its gain that of the twin?

    python tests/services.py [--seeds 20] [NAME…]

Prints a table: how often the finding of the trouble comes first, how often one is told above info where there is none,
how often the gain told is within 10 % of that of the second simulation, and the worst of them.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from msgspec import Struct

ROOT = Path(__file__).resolve().parents[1]
for folder in (ROOT, ROOT / "fixtures", ROOT / "tests"):
    sys.path.insert(0, str(folder))

from served import served, written  # noqa: E402 - its folder is no package
from service import Service  # noqa: E402
from service_causes import TROUBLES, Trouble  # noqa: E402
from service_shapes import SHAPES  # noqa: E402
from service_writer import EPOCH_NS, latencies  # noqa: E402

from npu_tui.analysis.service_latency import timeline  # noqa: E402
from npu_tui.analysis.service_timeline import TTFT, ServiceTimeline  # noqa: E402
from npu_tui.load.service import read_service  # noqa: E402
from npu_tui.rules.service_verdict import SubjectVerdict, judge  # noqa: E402

ALL: dict[str, Trouble] = {**TROUBLES, **SHAPES}
NEAR = 0.10
_FIGURES = "ttft_p50", "ttft_p99", "tpot_p50", "tpot_p99"


class Outcome(Struct):
    """What was said of one service: the causes by order, and gain told and simulated of the figure it helps most."""

    named: list[str]
    figure: str | None
    told: float | None
    true: float | None

    @property
    def error(self) -> float | None:
        """How far the gain told is from the simulated one."""
        return None if self.told is None or not self.true else abs(self.told - self.true) / abs(self.true)


def figures(service: Service) -> dict[str, float]:
    """TTFT and TPOT (ns) of a simulated service."""
    found = latencies(served(service).requests)
    return {
        f"{name}_p{share}": float(np.percentile(found[name], share)) for name in ("ttft", "tpot") for share in (50, 99)
    }


def judged(service: Service, folder: Path) -> tuple[ServiceTimeline, SubjectVerdict]:
    """What is said of ``service``, through the files."""
    found = timeline(read_service(written(service, folder)))
    adds_up(found, served(service).requests)
    return found, judge(found)


def adds_up(found: ServiceTimeline, requests: list[object]) -> None:
    """The parts of every request are its TTFT and its time per token, and its engine's time is what its steps took."""
    lat, steps = found.latencies, found.steps
    assert (lat.ttft_parts[lat.answered].sum(axis=1) == lat.ttft[lat.answered]).all()
    assert (lat.tpot_parts[lat.decoded].sum(axis=1) == lat.tpot[lat.decoded]).all()
    assert (lat.ttft_parts >= 0).all()
    assert (lat.tpot_parts >= 0).all()
    for number in range(len(found.engines)):
        part = steps.of(number)
        assert steps.cycle[part].sum() == steps.end[part].max() - steps.opened[part][0]
    assert len(lat.answered) == len(requests)
    front = TTFT.frontend
    for request in requests[:: max(len(requests) // 20, 1)]:
        rid = found.service.rids.index(f"cmpl-{request.rid:06d}")  # type: ignore[attr-defined]
        assert abs(int(lat.start[rid]) - EPOCH_NS - request.arrival) < 1000  # type: ignore[attr-defined]
        assert abs(int(lat.ttft_parts[rid, front]) - (request.enqueue - request.arrival)) < 2000  # type: ignore[attr-defined]


def outcome(trouble: Trouble, seed: int, folder: Path) -> Outcome:
    """What is said of ``trouble`` with ``seed``."""
    service = replace(trouble.service, seed=seed)
    _, verdict = judged(service, folder)
    found = verdict.findings.findings
    named = [finding.id for finding in found if finding.severity != "info"]
    if trouble.remedied is None or not named or found[0].gain_ns is None or found[0].step_after_ns is None:
        return Outcome(named, None, None, None)
    now, then = verdict.figures, figures(replace(trouble.remedied, seed=seed))
    was = found[0].gain_ns + found[0].step_after_ns
    figure = min((name for name in _FIGURES if now[name] > 0), key=lambda name: abs(now[name] - was))
    return Outcome(named, figure, found[0].gain_ns, now[figure] - then[figure])


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--seeds", type=int, default=20)
    options = parser.parse_args()
    print(f"{'service':<20}{'cause':<20}{'first':>7}{'only':>7}{'gain':>7}{'worst':>8}{'none':>6}  others")
    for name in options.names or ALL:
        trouble = ALL[name]
        with tempfile.TemporaryDirectory() as folder:
            found = [outcome(trouble, seed, Path(folder)) for seed in range(1, options.seeds + 1)]
        right = sum(one.named[:1] == ([trouble.finding] if trouble.finding else []) for one in found)
        only = sum(one.named == ([trouble.finding] if trouble.finding else []) for one in found)
        errors = [one.error for one in found if one.error is not None]
        near = sum(error <= NEAR for error in errors)
        others = sorted({id_ for one in found for id_ in one.named if id_ != trouble.finding})
        figure = sorted({one.figure for one in found if one.figure})
        missing = 0 if trouble.remedied is None else options.seeds - len(errors)
        worst = f"{max(errors):.1%}" if errors else ""
        counts = f"{right:>7}{only:>7}{near:>7}{worst:>8}{missing:>6}"
        print(f"{name:<20}{trouble.finding or 'none':<20}{counts}  {' '.join([*others, *figure])}", flush=True)


if __name__ == "__main__":
    main()
