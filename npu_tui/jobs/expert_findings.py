"""What is wrong with the experts of a job: uneven loads, a capacity that tokens do not fill, swaps that even dumps."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from npu_tui.analysis.limits import LITTLE, PLACES
from npu_tui.jobs.expert_loads import LayerLoad, evened, hot_experts, layer_works, padded_experts, swaps_told
from npu_tui.jobs.finding import LEAST, Held, priced
from npu_tui.jobs.job import Job
from npu_tui.rules.model import Evidence, Finding
from npu_tui.rules.rule import runs_of, severity_of
from npu_tui.trace.message import message


def expert_findings(job: Job) -> list[Finding]:
    """Experts that get more tokens than others, so that ranks wait for those that hold them."""
    hot = hot_experts(job)
    if hot is None or not job.length or hot.gain < LEAST * job.length:
        return []
    steps = max(len(job.steps), 1)
    layers = hot.their if hot.kind == "one" else hot.layers
    ranks = tuple(job.ranks[place].rank for place in hot.ranks)
    args: dict[str, object] = {
        "rank": ranks[0], "ranks": list(ranks[:8]), "count": len(ranks),
        "layers": runs_of([load.layer for load in layers]),
        "waits": sum(load.cost for load in layers) / steps,
        "uneven": max(load.uneven for load in layers),
        "most": sum(load.most for load in layers) / steps, "mean": sum(load.mean for load in layers) / steps,
    }  # fmt: skip
    places = sorted(layers, key=lambda load: -load.cost)[:PLACES]
    evidence = tuple(place for load in places for place in _longest(job, load))
    codes = f"job.experts.{hot.kind}", f"job.experts.{hot.kind}.detail"
    found = priced("EXPERT.LOAD", codes, ranks, hot.gain, Held.of_steps(job.length, job.steps), evidence, **args)
    if hot.exchanged < LITTLE * hot.gain:
        return [found]
    shorter = message("job.experts.exchanged", time=hot.exchanged / steps, **Held.of_steps(job.length, job.steps).words)
    return [replace(found, detail=message("list.sentences", parts=[found.detail, shorter]))]


def padding_findings(job: Job) -> list[Finding]:
    """Experts that compute rows of a capacity which no token fills."""
    padded = padded_experts(job)
    if padded is None or not job.length or padded.gain < LEAST * job.length:
        return []
    args = {"rows": padded.rows, "routed": padded.routed, "times": padded.rows / padded.routed}
    codes, ranks = ("job.padded.title", "job.padded.detail"), tuple(each.rank for each in job.ranks if each.experts)
    return [priced("EXPERT.PADDED", codes, ranks, padded.gain, Held.of_steps(job.length, job.steps), **args)]


def swap_findings(job: Job) -> list[Finding]:
    """The dumps of expert loads in which swaps of experts make the ranks most even, where that is notably more."""
    loads = max(job.loads, key=evened, default=None)
    if loads is None or evened(loads) < LITTLE:
        return []
    work = layer_works(job.parts[0])
    title, *detail = swaps_told(loads, work)
    rank, saves = loads.ranks[int(np.argmax(loads.of_rank.sum(axis=0)))], loads.saves(work) if job.length else None
    gain = None if saves is None else round(saves * 1e3 * max(len(job.steps), 1))
    severity = "medium" if gain is None else severity_of(None, gain / job.length)
    told = message("list.sentences", parts=detail)
    return [Finding("EXPERT.SWAP", "compute", severity, title, told, gain_ns=gain, unit="run", ranks=(rank,))]


def _longest(job: Job, load: LayerLoad) -> list[Evidence]:
    """The pass in which the slowest rank of a layer computes longest for its experts."""
    balance = job.experts
    if balance is None:
        return []
    own = np.flatnonzero((balance.layer == load.layer) & (balance.rank == load.slowest))
    longest = own[np.argmax(balance.work[own])]
    return [Evidence(int(balance.start[longest]), int(balance.end[longest]), rank=job.ranks[load.slowest].rank)]
