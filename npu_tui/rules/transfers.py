"""Findings about transfers, by communication.json (rule F27 of the collected diagnosis rules).

Transport types are SDMA and RDMA; HCCS, PCIE and SIO are link types, whose data SDMA moves.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npu_tui.analysis.collectives import Transfer
from npu_tui.analysis.limits import NEARLY_ALL
from npu_tui.analysis.thresholds import Threshold
from npu_tui.rules import pages
from npu_tui.rules.facts import Facts
from npu_tui.rules.links import (
    ALIGNMENT_BYTES,
    CONTENTION_GB_S,
    SMALL_PACKET_RDMA_MB,
    SMALL_PACKET_SDMA_MB,
    SMALL_PACKET_SHARE,
    draft_of_links,
)
from npu_tui.rules.model import Evidence
from npu_tui.rules.rule import LISTED, Draft, Rule, advise, timed
from npu_tui.trace.message import Message, message
from npu_tui.trace.text import brief


def _by_transport(facts: Facts) -> dict[str, list[Transfer]]:
    """The transfers that start in the window by transport.

    Where communication.json has the sum of a transport for a collective, the rows of its links are left out.
    """
    window = facts.window
    transfers = [transfer for transfer in facts.inputs.transfers() if window.start <= transfer.start < window.end]
    by_transport: dict[str, list[Transfer]] = {}
    for transport, links in (("SDMA", ("HCCS", "PCIE", "SIO")), ("RDMA", ("ROCE",))):
        sums = [transfer for transfer in transfers if transfer.transport.upper() == transport]
        summed = {(transfer.name, transfer.start) for transfer in sums}
        sums += [
            transfer
            for transfer in transfers
            if transfer.transport.upper() in links and (transfer.name, transfer.start) not in summed
        ]
        if sums:
            by_transport[transport] = sums
    return by_transport


def packets(facts: Facts) -> Draft | None:
    """Small and unaligned packets, where there are no plane tasks for COMM.LINK to look at one by one."""
    limits, grid = facts.limits, facts.limits[ALIGNMENT_BYTES]
    if facts.has("planes"):
        return None
    problems: list[tuple[Message, Sequence[Evidence]]] = []
    advice: list[Message] = []
    for transport, transfers in _by_transport(facts).items():
        most = (limits[SMALL_PACKET_SDMA_MB] if transport == "SDMA" else limits[SMALL_PACKET_RDMA_MB]) * 1e6
        sizes = [packet for transfer in transfers for packet in transfer.packets]
        count = sum(number for _, number in sizes)
        small = sum(number for size, number in sizes if size < most)
        if count and small > limits[SMALL_PACKET_SHARE] * count:
            text = message("finding.link.small", kind=transport, share=small / count, most=most / 1e6)
            with_small = [transfer for transfer in transfers if any(size < most for size, _ in transfer.packets)]
            problems.append((text, _longest(facts, with_small)))
            advice += advise("larger_packets")
        odd = [transfer for transfer in transfers if transport == "SDMA" and _is_odd(transfer, grid)]
        if odd:
            share = sum(transfer.time for transfer in odd) / max(sum(transfer.time for transfer in transfers), 1)
            text = message("finding.link.unaligned", count=len(odd), bytes=grid, share=share)
            problems.append((text, _longest(facts, odd)))
            advice.append(message("finding.advice.align", bytes=grid))
    return draft_of_links("low", problems, tuple(advice))


def _is_odd(transfer: Transfer, grid: int) -> bool:
    return any(size > grid and round(size) % grid for size, _ in transfer.packets)


RDMA_GB_S = Threshold("rdma_gb_s", 10.0)
SLOW_SHARE = Threshold("slow_share", 0.2)


def bandwidth(facts: Facts) -> Draft | None:
    """Transports that are slow though their packets are large, and what else ran meanwhile."""
    limits = facts.limits
    problems: list[tuple[Message, Sequence[Evidence]]] = []
    contended = 0
    for transport, transfers in _by_transport(facts).items():
        least = limits[CONTENTION_GB_S] if transport == "SDMA" else limits[RDMA_GB_S]
        slow = [
            transfer
            for transfer in transfers
            if transfer.speed is not None and transfer.speed < least and _is_large(transfer)
        ]
        time = sum(transfer.time for transfer in slow)
        if not slow or time < limits[SLOW_SHARE] * sum(transfer.time for transfer in transfers):
            continue
        meanwhile = [transfer for transfer in slow if transport == "SDMA" and _multiplies(facts, transfer)]
        speed = sum(transfer.size for transfer in slow) / max(time, 1)
        text = message(
            "finding.slow_link.contended" if meanwhile else "finding.slow_link.slow",
            transport=transport, count=len(slow), speed=speed, least=least, time=time, contended=len(meanwhile),
        )  # fmt: skip
        problems.append((text, _longest(facts, meanwhile or slow)))
        contended += len(meanwhile)
    return draft_of_links("low", problems, advise("contention" if contended else "slow_link"), "medium")


def _is_large(transfer: Transfer) -> bool:
    return transfer.large_ratio is None or transfer.large_ratio >= NEARLY_ALL


def _multiplies(facts: Facts, transfer: Transfer) -> bool:
    """Whether a matrix product runs during the collective."""
    table = facts.kernel_table
    products = table.type.where(lambda kind: "matmul" in kind.lower())
    start = table.start[products]
    return bool(np.any((start < transfer.end) & (start + table.duration[products] > transfer.start)))


def _longest(facts: Facts, transfers: list[Transfer]) -> list[Evidence]:
    """The five longest of ``transfers``, in order of time."""
    longest = sorted(transfers, key=lambda transfer: -transfer.time)[:5]
    return [_transfer_place(facts, transfer) for transfer in sorted(longest, key=lambda transfer: transfer.start)]


def _transfer_place(facts: Facts, transfer: Transfer) -> Evidence:
    note = message(
        "finding.slow_link.place",
        size=round(transfer.size), transport=transfer.transport, speed=transfer.speed or 0.0,
    )  # fmt: skip
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
    names = sorted(sums, key=lambda name: -sums[name])[:LISTED]
    return Draft(
        "low",
        message("finding.preprocess.title", name=brief(names[0]), each=facts.per_unit(total)),
        message("finding.preprocess.detail", count=len(rows), names=[timed(name, sums[name]) for name in names]),
        tuple(
            Evidence(row.start, row.start + row.total, None, brief(row.name), message("finding.preprocess.place"))
            for row in sorted(rows, key=lambda row: -row.total)[:10]
            if row.start is not None
        ),
        confidence="medium",
    )


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
        words=("hccl",),
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
        words=("slow_link",),
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
        words=("aipp",),
    ),
)
