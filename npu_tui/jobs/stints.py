"""When a rank worked as which role, by its trace: ranges of mstx around the functions of a role, else its device."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict

import numpy as np
from msgspec.structs import replace

from npu_tui.jobs.model import RankProfile, Stint
from npu_tui.load.find import Source
from npu_tui.load.load import load
from npu_tui.trace.intervals import union
from npu_tui.trace.model import Trace

FUNCTIONS = frozenset(
    f"{model}_{work}" if work else model
    for model, work in (
        ("generate_sequences", ""), ("rollout", "generate"), ("actor", "generate"), ("actor", "compute_log_prob"),
        ("compute_log_prob", ""), ("compute_ref_log_prob", ""), ("ref", "compute_log_prob"),
        ("reference", "compute_log_prob"), ("compute_values", ""), ("critic", "compute_values"), ("update_critic", ""),
        ("critic", "update"), ("compute_rm_score", ""), ("update_actor", ""), ("actor", "update"),
    )
)  # fmt: skip
"""What verl and MindSpeed-RL call the functions of roles, without the class before a dot."""

_GENERATES = ("generate", "rollout", "gen")
_ON_DEVICE = ("hardware", "communication", "overlap")


def generates(role: str) -> bool:
    """Whether ``role`` makes the responses."""
    return any(word in role.lower().replace("-", "_").split("_") for word in _GENERATES) or "rollout" in role.lower()


def with_stints(profile: RankProfile, source: Source) -> RankProfile:
    """``profile`` with no more of the trace of ``source`` than when it worked as which role. Raises ``InputError``."""
    return stints_added(profile, load(source))


def stints_added(profile: RankProfile, trace: Trace) -> RankProfile:
    """``profile`` with when it worked as which role, by its ``trace``, and the device that it worked on."""
    device = next((layer.device for layer in trace.layers if layer.device is not None), None)
    return replace(profile, stints=stints_of(trace, profile.role), device=device)


def stints_of(trace: Trace, role: str) -> tuple[Stint, ...]:
    """The stints of a rank as ``role``, or, where it ran functions of several roles, as each of those.

    Without ranges the device tells, from its first work to its last; without a role it does not.
    """
    slices, called = trace.slices, {}
    for code, name in enumerate(trace.names):
        function = name.rpartition(".")[2]
        if function.lower() in FUNCTIONS:
            called[code] = function
    items = np.flatnonzero(np.isin(slices.name, list(called))) if called else np.zeros(0, np.int64)
    kinds = np.array([trace.layers[lane.layer].kind for lane in trace.lanes])
    lane_kind = kinds[slices.lane]
    on_host = items[~np.isin(lane_kind[items], _ON_DEVICE)]
    items = on_host if len(on_host) else items
    spans: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for item in items.tolist():
        spans[called[int(slices.name[item])]].append((int(slices.start[item]), int(slices.end[item])))
    if len(spans) == 1 and role:
        spans = defaultdict(list, {role: next(iter(spans.values()))})
    if not spans and role:
        work = np.flatnonzero(lane_kind == "overlap")
        work = work if len(work) else np.flatnonzero(np.isin(lane_kind, _ON_DEVICE))
        if len(work):
            span = int(slices.start[work].min()), int(slices.end[work].max())
            return (_stint(trace, role, "1", span, "device"),)
    # A step begins where responses are made, or else with what is done first.
    first = next((name for name in spans if generates(name)), min(spans, key=lambda name: min(spans[name]), default=""))
    begins = sorted(start for start, _ in _united(spans[first])) if spans else []
    return tuple(
        _stint(trace, name, str(max(bisect_right(begins, span[0]), 1)), span, "range")
        for name, own in spans.items()
        for span in _united(own)
    )


def _united(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """``spans`` in order, those that overlap as one."""
    start, end = union(*np.array(spans, np.int64).T)
    return list(zip(start.tolist(), end.tolist(), strict=True))


def _stint(trace: Trace, role: str, step: str, span: tuple[int, int], known_by: str) -> Stint:
    return Stint(role, step, trace.start_ns + span[0], trace.start_ns + span[1], known_by)
