"""Findings about runs of operations and kernels that one fused operator replaces (rules F14 and F15)."""

from __future__ import annotations

import numpy as np

from npu_tui.analysis.findings.facts import I64, Facts
from npu_tui.analysis.findings.model import Evidence, Severity
from npu_tui.analysis.findings.phrases import line_of, sentences
from npu_tui.analysis.findings.rule import Draft, Rule
from npu_tui.analysis.findings.sequences import ATEN, BETWEEN_ATEN, BETWEEN_KERNELS, KERNEL, Match, matches
from npu_tui.analysis.launches.code_lines import CodeLine, stack_of, user_line
from npu_tui.analysis.work.host_operators import HostOperators
from npu_tui.analysis.work.operators import collective_type
from npu_tui.trace.message import message
from npu_tui.trace.text import brief

_PREFIX = "aten::"


class _Found:
    """The places of one API: where they begin and end, and how long the device worked on them, ns."""

    def __init__(self) -> None:
        self.time = 0
        self.exact = False
        self.places: list[tuple[int, int, str]] = []


def affinity_api(facts: Facts) -> Draft | None:
    """Runs of top-level operations with a torch_npu API of their own."""
    trace, slices = facts.trace, facts.trace.slices
    hosts = facts.hosts
    items, device = _top_level(facts, hosts)
    found: dict[str, _Found] = {}
    for lane in np.unique(slices.lane[items]).tolist():
        own = np.flatnonzero(slices.lane[items] == lane)
        words = [trace.name_of(item).removeprefix(_PREFIX) for item in items[own].tolist()]
        for match in matches(words, ATEN, BETWEEN_ATEN):
            members = own[match.first : match.last]
            _add(found, match, items[members], int(device[members].sum()), " → ".join(words[match.first : match.last]))
    lines = _lines(facts, [place[0] for each in found.values() for place in each.places[:5]])
    return _draft(facts, found, "api", lines)


def _top_level(facts: Facts, hosts: HostOperators) -> tuple[I64, I64]:
    """The ``aten`` operations of the window inside no other operation, with their time on the device."""
    trace = facts.trace
    plain = np.array([name.startswith(_PREFIX) for name in trace.names] + [False])
    own = plain[trace.slices.name[hosts.item]] & (hosts.parent < 0)
    own &= facts.window.holds(trace.slices.start[hosts.item] + facts.floor)
    return hosts.item[own], hosts.device_total[own]


def affinity_kernel(facts: Facts) -> Draft | None:
    """Runs of kernels that one operator does at once, and types that a cheaper one replaces."""
    trace, slices = facts.trace, facts.trace.slices
    types, code = facts.kernel_types
    names = [types[k] for k in code.tolist()]
    # A collective behind a matrix multiplication is a run over two streams: all of them in one order of time.
    items = np.concatenate((facts.kernels, np.array([each.item for each in facts.collectives], np.int64)))
    names += [collective_type(trace.name_of(each.item)) for each in facts.collectives]
    order = np.argsort(slices.start[items], kind="stable")
    items, words = items[order], [names[k] for k in order.tolist()]
    found: dict[str, _Found] = {}
    for match in matches(words, KERNEL, BETWEEN_KERNELS):
        own = items[match.first : match.last]
        _add(found, match, own, int(facts.length(own).sum()), " → ".join(words[match.first : match.last]))
    return _draft(facts, found, "kernel", ())


def _add(found: dict[str, _Found], match: Match, items: I64, time: int, words: str) -> None:
    row = found.setdefault(match.run.api, _Found())
    row.time += time
    row.exact |= match.run.exact
    row.places.append((int(items[0]), int(items[-1]), words))


def _lines(facts: Facts, items: list[int]) -> tuple[CodeLine, ...]:
    stacks = stack_of(facts.trace, np.array(items, np.int64)) if items else np.zeros(0, np.int64)
    lines = [user_line(facts.trace.stacks[stack]) for stack in stacks.tolist() if stack >= 0]
    return tuple(dict.fromkeys(line for line in lines if line is not None))[:5]


def _draft(facts: Facts, found: dict[str, _Found], kind: str, lines: tuple[CodeLine, ...]) -> Draft | None:
    if not found:
        return None
    limits = facts.limits
    rows = sorted(found.items(), key=lambda row: -row[1].time)
    exact = [row for row in rows if row[1].exact]
    time = sum(row.time for _, row in exact)
    share = facts.share(time)
    computing = facts.sums.computing
    severity: Severity = "low" if share >= limits.affinity_share else "info"
    runs = [
        message(
            "finding.affinity.run",
            api=api,
            count=len(row.places),
            words=brief(row.places[0][2], 80),
            time=row.time,
        )
        for api, row in rows[:6]
    ]
    parts = [message(f"finding.affinity.{kind}", runs=runs)]
    if lines:
        parts.append(message("finding.affinity.lines", lines=[line_of(line) for line in lines]))
    slices = facts.trace.slices
    evidence = tuple(
        Evidence(
            int(slices.start[first]),
            int(slices.end[last]),
            int(slices.lane[first]),
            brief(words, 120),
            message("finding.affinity.place", api=api),
            first,
        )
        for api, row in rows[:4]
        for first, last, words in row.places[:3]
    )
    return Draft(
        severity,
        message(
            "finding.affinity.title",
            api=rows[0][0],
            more=message("finding.affinity.more", count=len(rows) - 1) if len(rows) > 1 else "",
        ),
        sentences(*parts),
        evidence,
        (
            *(message("finding.advice.use", api=api) for api, _ in rows[:4]),
            message("finding.advice.check_numbers", share=time / computing if computing else 0.0),
        ),
        weight=float(time),
        confidence="medium" if exact else "low",
        code_lines=lines,
    )


RULES = (
    Rule(
        "OP.AFFINITY_API",
        "compute",
        ("device", "overlap", "python"),
        affinity_api,
        ("affinity_share",),
        ("msprof-analyze advisor: affinity API", "MindStudio Insight: fusible operators", "affinity operators guide"),
    ),
    Rule(
        "OP.AFFINITY_KERNEL",
        "compute",
        ("device", "overlap"),
        affinity_kernel,
        ("affinity_share",),
        (
            "msprof-analyze advisor: fused kernels",
            "operator tuning guide 0-15 to 0-21",
            "affinity operators guide 3-04 to 3-18",
        ),
    ),
)
