"""Findings about how well the links between devices are used (rule F27 of the collected diagnosis rules).

The parts are the communication rules of msprof-analyze's advisor: byte alignment, packet, bandwidth contention and
retransmission.
"""

from __future__ import annotations

from functools import lru_cache, partial

import numpy as np

from npu_tui.analysis.collectives import TrafficColumns
from npu_tui.analysis.communication import ON_CHIP
from npu_tui.analysis.thresholds import Threshold
from npu_tui.rules import pages
from npu_tui.rules.blame import late
from npu_tui.rules.facts import Facts
from npu_tui.rules.inputs import I64, NOTHING, Bools, both, length_of, without
from npu_tui.rules.model import SEVERITIES, Severity
from npu_tui.rules.rule import SEVERITY_MEDIUM, Draft, Rule, sentences
from npu_tui.trace.intervals import touches
from npu_tui.trace.message import Message, message

_TRANSPORT = {"HCCS": "SDMA", "PCIE": "SDMA", "SIO": "SDMA", "SDMA": "SDMA", "ROCE": "RDMA", "RDMA": "RDMA"}
"""What moves the data over each type of link; traces name the link, the rules the transport."""


@lru_cache(64)
def _transport(link_type: str) -> str | None:
    return _TRANSPORT.get(link_type.partition("_")[0].upper()) if link_type != ON_CHIP else None


def _is_carried_by(transport: str, link_type: str) -> bool:
    return _transport(link_type) == transport


ALIGNMENT_BYTES = Threshold("alignment_bytes", 512)
SMALL_PACKET_SHARE = Threshold("small_packet_share", 0.2)
SMALL_PACKET_SDMA_MB = Threshold("small_packet_sdma_mb", 16.0)
SMALL_PACKET_RDMA_MB = Threshold("small_packet_rdma_mb", 1.0)
CONTENTION_GB_S = Threshold("contention_gb_s", 14.4)
RETRANSMISSION_MS = Threshold("retransmission_ms", 4000.0)


def link(facts: Facts) -> Draft | None:
    """Transfers that the link serves badly: unaligned, small, in contention, or sent again."""
    assert facts.inputs.planes() is not None
    limits = facts.limits
    problems: list[tuple[Severity, Message, Message, list[int]]] = []
    unaligned, share = _unaligned(facts)
    if unaligned:
        matters = _matters(facts, np.array(unaligned))
        severity: Severity = "info" if not matters else "low" if share < 0.2 else "medium"
        text = message("finding.link.unaligned", count=len(unaligned), bytes=limits[ALIGNMENT_BYTES], share=share)
        problems.append((severity, text, message("finding.advice.align", bytes=limits[ALIGNMENT_BYTES]), unaligned))
    for kind, most in (("SDMA", limits[SMALL_PACKET_SDMA_MB]), ("RDMA", limits[SMALL_PACKET_RDMA_MB])):
        own = facts.inputs.planes().over(partial(_is_carried_by, kind)) & (facts.inputs.planes().size > 0)
        small = own & (facts.inputs.planes().size < most * 1e6)
        many = own.any() and small.sum() > limits[SMALL_PACKET_SHARE] * own.sum()
        if many and _matters(facts, facts.inputs.planes().item[small]):
            text = message("finding.link.small", kind=kind, share=float(small.sum() / own.sum()), most=most)
            problems.append(
                ("low", text, message("finding.advice.larger_packets"), facts.inputs.planes().item[small][:3].tolist())
            )
    contended = _contended(facts)
    if contended and _matters(facts, np.array(contended)):
        text = message("finding.link.contention", count=len(contended), speed=limits[CONTENTION_GB_S])
        problems.append(("low", text, message("finding.advice.contention"), contended))
    again = _sent_again(facts)
    if again:
        problems.append(
            ("high", message("finding.link.again", count=len(again)), message("finding.advice.rdma"), again)
        )
    if not problems:
        return None
    worst = min((row[0] for row in problems), key=SEVERITIES.index)
    return Draft(
        worst,
        message("finding.link.title", first=problems[0][1])
        if len(problems) == 1
        else message("finding.link.titles", count=len(problems)),
        sentences(*(message("finding.link.sentence", text=row[1]) for row in problems)),
        tuple(facts.place(item, row[1]) for row in problems for item in row[3][:5]),
        tuple(row[2] for row in problems),
    )


def _matters(facts: Facts, items: I64) -> bool:
    """Whether the device waits for these transfers, and not for a late rank, for a share of its time worth a word."""
    found = late(facts)
    slow = without(facts.exposed, found.span if found is not None else NOTHING)
    return facts.share(length_of(both(slow, facts.span_of(items)))) >= facts.limits[SEVERITY_MEDIUM]


def _unaligned(facts: Facts) -> tuple[list[int], float]:
    """Collectives with transfers off the alignment, and their share of the time of all transfers."""
    planes = facts.inputs.planes()
    assert planes is not None
    size = facts.limits[ALIGNMENT_BYTES]
    moving = planes.over(lambda name: name not in (ON_CHIP, "", "INVALID_TYPE")) & (planes.size > 0)
    odd = moving & (planes.size > size) & (planes.size % size != 0)
    if not odd.any():
        return [], 0.0
    starts = np.sort(facts.trace.slices.start[planes.item[odd]])
    items = facts.collectives.item
    _, moved = facts.collectives.moved.sums(len(items))
    begin, end = facts.trace.slices.start[items], facts.trace.slices.end[items]
    inside = np.searchsorted(starts, end) > np.searchsorted(starts, begin)
    total = int(moved.sum())
    found: list[int] = items[inside].tolist()
    return found, int(moved[inside].sum()) / total if total else 0.0


def _carried_by(transport: str, moved: TrafficColumns) -> Bools:
    """Which rows of ``moved`` went over links that ``transport`` serves."""
    own: Bools = np.array([_is_carried_by(transport, link) for link in moved.links], np.bool_)[moved.link]
    return own


def _sent_again(facts: Facts) -> list[int]:
    """Collectives in which RDMA took as long as it waits before it sends again."""
    every, least = facts.collectives, facts.limits[RETRANSMISSION_MS] * 1e6
    long = _carried_by("RDMA", every.moved) & (every.moved.transfer >= least)
    again = np.zeros(len(every), np.bool_)
    again[every.moved.owner[long]] = True
    found: list[int] = every.item[again & (every.elapsed >= least)].tolist()
    return found


def _contended(facts: Facts) -> list[int]:
    """Slow SDMA collectives during which a matrix multiplication ran."""
    types, code = facts.kernel_types
    wanted = np.array(["matmul" in name.lower() for name in types] + [False])
    products: I64 = facts.kernels[wanted[code]] if len(facts.kernels) else facts.kernels
    start, end = facts.trace.slices.start[products], facts.trace.slices.end[products]
    moved = facts.collectives.moved
    size, time = moved.sums(len(facts.collectives), _carried_by("SDMA", moved) & (moved.transfer != 0))
    slow = (time != 0) & (size / np.where(time, time, 1) < facts.limits[CONTENTION_GB_S])
    items = facts.collectives.item[slow]
    low, high = facts.trace.slices.start[items], facts.trace.slices.end[items]
    found: list[int] = items[touches(start, end, low.astype(np.float64), high.astype(np.float64))].tolist()
    return found


RULES: tuple[Rule, ...] = (
    Rule(
        "COMM.LINK",
        cls="communication",
        inputs=("device", "overlap", "planes"),
        check=link,
        thresholds=(
            ALIGNMENT_BYTES,
            SMALL_PACKET_SHARE,
            SMALL_PACKET_SDMA_MB,
            SMALL_PACKET_RDMA_MB,
            CONTENTION_GB_S,
            RETRANSMISSION_MS,
        ),
        advice=("larger_packets", "contention", "rdma"),
        pages=(pages.ANALYZE, pages.DDP),
        change="""\
-bucket = torch.zeros(n, dtype=torch.float16, device="npu")
+bucket = torch.zeros(-(-n // 256) * 256, dtype=torch.float16, device="npu")
""",
        sources=(
            "msprof-analyze advisor: packet, byte alignment, bandwidth contention, retransmission",
            "operator tuning guide 0-31",
        ),
    ),
)
