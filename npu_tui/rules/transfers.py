"""Findings about transfers, by communication.json (rule F27 of the collected diagnosis rules).

Transport types are SDMA and RDMA; HCCS, PCIE and SIO are link types, whose data SDMA moves.
"""

from __future__ import annotations

import numpy as np

from npu_tui.analysis.collectives import Preprocessing, Transfer
from npu_tui.analysis.thresholds import Threshold
from npu_tui.rules import pages
from npu_tui.rules.communication import (
    ALIGNMENT_BYTES,
    CONTENTION_GB_S,
    SMALL_PACKET_RDMA_MB,
    SMALL_PACKET_SDMA_MB,
    SMALL_PACKET_SHARE,
)
from npu_tui.rules.facts import Facts
from npu_tui.rules.model import Evidence
from npu_tui.rules.rule import Draft, Rule, advise, sentences
from npu_tui.trace.message import Message, message
from npu_tui.trace.text import brief

_TRANSPORTS = {"SDMA": ("SDMA", "HCCS", "PCIE", "SIO"), "RDMA": ("RDMA", "ROCE")}
_LARGE = 0.8
"""Share of large packets from which a slow transport is not slow because of small ones."""
_LISTED = 4


def _by_transport(facts: Facts) -> dict[str, list[Transfer]]:
    """The transfers that start in the window by what moves them; the sum of a transport stands for its links."""
    found: dict[str, list[Transfer]] = {}
    own = [transfer for transfer in facts.inputs.transfers() if facts.window.start <= transfer.start < facts.window.end]
    for transport, (whole, *links) in ((name, types) for name, types in _TRANSPORTS.items()):
        sums = [each for each in own if each.transport.upper() == whole]
        summed = {(each.name, each.start) for each in sums}
        parts = [each for each in own if each.transport.upper() in links and (each.name, each.start) not in summed]
        if sums or parts:
            found[transport] = [*sums, *parts]
    return found


def packets(facts: Facts) -> Draft | None:
    """Small and unaligned packets; where the plane tasks tell, COMM.LINK says it of every single one."""
    limits = facts.limits
    if facts.has("planes"):
        return None
    problems: list[tuple[Message, tuple[Message, ...], list[Transfer]]] = []
    for transport, own in _by_transport(facts).items():
        most = (limits[SMALL_PACKET_SDMA_MB] if transport == "SDMA" else limits[SMALL_PACKET_RDMA_MB]) * 1e6
        count = sum(number for each in own for _, number in each.packets)
        small = sum(number for each in own for size, number in each.packets if size < most)
        if count and small > limits[SMALL_PACKET_SHARE] * count:
            said = message("finding.link.small", kind=transport, share=small / count, most=most / 1e6)
            problems.append((said, advise("larger_packets"), [each for each in own if _has_small(each, most)]))
        odd = [each for each in own if transport == "SDMA" and _is_odd(each, limits[ALIGNMENT_BYTES])]
        if odd:
            share = sum(each.time for each in odd) / max(sum(each.time for each in own), 1)
            said = message("finding.link.unaligned", count=len(odd), bytes=limits[ALIGNMENT_BYTES], share=share)
            problems.append((said, (message("finding.advice.align", bytes=limits[ALIGNMENT_BYTES]),), odd))
    if not problems:
        return None
    return Draft(
        "low",
        message("finding.link.title", first=problems[0][0])
        if len(problems) == 1
        else message("finding.link.titles", count=len(problems)),
        sentences(*(message("finding.link.sentence", text=said) for said, _, _ in problems)),
        tuple(_place(facts, each) for _, _, own in problems for each in _longest(own)),
        tuple(text for _, advice, _ in problems for text in advice),
    )


def _has_small(transfer: Transfer, most: float) -> bool:
    return any(size < most for size, _ in transfer.packets)


def _is_odd(transfer: Transfer, grid: int) -> bool:
    return any(size > grid and round(size) % grid for size, _ in transfer.packets)


RDMA_GB_S = Threshold("rdma_gb_s", 10.0)
SLOW_SHARE = Threshold("slow_share", 0.2)


def bandwidth(facts: Facts) -> Draft | None:
    """Transports that are slow though their packets are large, and what else ran meanwhile."""
    limits = facts.limits
    found: list[tuple[Message, list[Transfer], bool]] = []
    for transport, own in _by_transport(facts).items():
        least = limits[CONTENTION_GB_S] if transport == "SDMA" else limits[RDMA_GB_S]
        slow = [each for each in own if each.speed is not None and each.speed < least and _is_large(each)]
        time = sum(each.time for each in slow)
        if not slow or time < limits[SLOW_SHARE] * sum(each.time for each in own):
            continue
        meanwhile = [each for each in slow if transport == "SDMA" and _multiplies(facts, each)]
        speed = sum(each.size for each in slow) / max(time, 1)
        said = message(
            "finding.slow_link.contended" if meanwhile else "finding.slow_link.slow",
            transport=transport, count=len(slow), speed=speed, least=least, time=time, contended=len(meanwhile),
        )  # fmt: skip
        found.append((said, meanwhile or slow, bool(meanwhile)))
    if not found:
        return None
    contended = any(row[2] for row in found)
    return Draft(
        "low",
        message("finding.link.title", first=found[0][0])
        if len(found) == 1
        else message("finding.link.titles", count=len(found)),
        sentences(*(message("finding.link.sentence", text=said) for said, _, _ in found)),
        tuple(_place(facts, each) for _, own, _ in found for each in _longest(own)),
        advise("contention") if contended else advise("slow_link"),
        confidence="medium",
    )


def _is_large(transfer: Transfer) -> bool:
    return transfer.large_ratio is None or transfer.large_ratio >= _LARGE


def _multiplies(facts: Facts, transfer: Transfer) -> bool:
    """Whether a matrix product runs during the collective."""
    table = facts.kernel_table
    products = table.type.where(lambda kind: "matmul" in kind.lower())
    start = table.start[products]
    return bool(np.any((start < transfer.end) & (start + table.duration[products] > transfer.start)))


def _longest(own: list[Transfer]) -> list[Transfer]:
    return sorted(sorted(own, key=lambda each: -each.time)[:5], key=lambda each: each.start)


def _place(facts: Facts, transfer: Transfer) -> Evidence:
    note = message(
        "finding.slow_link.place", size=round(transfer.size), transport=transfer.transport, speed=transfer.speed or 0.0
    )
    if transfer.item >= 0:
        return facts.place(transfer.item, note)
    return Evidence(transfer.start, transfer.end, None, brief(transfer.name), note)


PREPROCESS_MS = Threshold("preprocess_ms", 10.0)


def preprocessing(facts: Facts) -> Draft | None:
    """Preprocessing of data that takes long, by data_preprocess.csv."""
    rows = [
        row
        for row in facts.inputs.preprocessing()
        if row.start is None or facts.window.start <= row.start < facts.window.end
    ]
    sums: dict[str, int] = {}
    for row in rows:
        sums[row.name] = sums.get(row.name, 0) + row.total
    total = sum(sums.values())
    if total < facts.limits[PREPROCESS_MS] * 1e6:
        return None
    names = sorted(sums, key=lambda name: -sums[name])[:_LISTED]
    timed = [message("finding.timed", name=brief(name), time=sums[name]) for name in names]
    return Draft(
        "low",
        message("finding.preprocess.title", name=brief(names[0]), time=total),
        message("finding.preprocess.detail", count=len(rows), names=timed),
        tuple(_step_of(row) for row in sorted(rows, key=lambda row: -row.total)[:10] if row.start is not None),
        confidence="medium",
    )


def _step_of(row: Preprocessing) -> Evidence:
    start = row.start or 0
    return Evidence(start, start + row.total, None, brief(row.name), message("finding.preprocess.place"))


RULES: tuple[Rule, ...] = (
    Rule(
        "COMM.PACKETS",
        cls="communication",
        inputs=("transfers",),
        check=packets,
        thresholds=(SMALL_PACKET_SHARE, SMALL_PACKET_SDMA_MB, SMALL_PACKET_RDMA_MB, ALIGNMENT_BYTES),
        advice=("larger_packets",),
        pages=(pages.ANALYZE,),
        sources=("msprof-analyze advisor: packet, byte alignment",),
        reach="place",
    ),
    Rule(
        "COMM.BANDWIDTH",
        cls="communication",
        inputs=("transfers",),
        check=bandwidth,
        thresholds=(CONTENTION_GB_S, RDMA_GB_S, SLOW_SHARE),
        advice=("contention", "slow_link"),
        pages=(pages.ANALYZE,),
        sources=("msprof-analyze advisor: bandwidth contention", "20-step tuning checklist 2-26"),
        reach="place",
    ),
    Rule(
        "DATA.PREPROCESS",
        cls="data",
        inputs=("preprocess",),
        check=preprocessing,
        thresholds=(PREPROCESS_MS,),
        advice=("preprocess",),
        pages=(pages.DATA,),
        sources=("MindStudio profiling guide: data_preprocess",),
        reach="place",
    ),
)
