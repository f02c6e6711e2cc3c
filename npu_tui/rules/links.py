"""Findings about links between ranks: one that is slower than the others, and links that are used badly.

The communication rules of msprof-analyze's advisor (byte alignment, packets, bandwidth contention, retransmission), and
the links of one rank beside each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from npu_tui.analysis.collectives import ranks_of_group
from npu_tui.analysis.communication import ON_CHIP, faltering, owned_tasks, peer_at, transports_over
from npu_tui.analysis.limits import ALMOST_ALL, HALF, Threshold
from npu_tui.analysis.replay import Change
from npu_tui.rules import pages
from npu_tui.rules.communication import shortened_collectives
from npu_tui.rules.data import LARGE_BYTES
from npu_tui.rules.facts import Facts, once_per_device
from npu_tui.rules.inputs import Span, common, length_of
from npu_tui.rules.late_ranks import moving, number_of
from npu_tui.rules.model import SEVERITIES, Confidence, Evidence, Severity
from npu_tui.rules.rule import SEVERITY_HIGH, SEVERITY_MEDIUM, Draft, Rule, advise, cost_of, sentences, severity_of
from npu_tui.trace.arrays import I64, Bools, distinct, in_groups
from npu_tui.trace.intervals import touches, union
from npu_tui.trace.message import Message, message
from npu_tui.trace.text import whole_number

ALIGNMENT_BYTES = Threshold("alignment_bytes", 512)
SMALL_PACKET_SHARE = Threshold("small_packet_share", 0.2)
SMALL_PACKET_SDMA_MB = Threshold("small_packet_sdma_mb", 16.0)
SMALL_PACKET_RDMA_MB = Threshold("small_packet_rdma_mb", 1.0)
CONTENTION_GB_S = Threshold("contention_gb_s", 14.4)
RETRANSMISSION_MS = Threshold("retransmission_ms", 4000.0)
LINK_SPEED = Threshold("link_speed", 0.5)

_USUAL_SPEEDS = {"HCCS": 18.0, "PCIE": 20.0, "ROCE": 12.5, "RDMA": 12.5}
"""What MindStudio Insight holds usual for large transfers over links of a type, GB/s."""
_BUFFER_MB = 200
"""The default of HCCL_BUFFSIZE, MB: the data of a collective goes through such a buffer part by part."""

_SLOWER, _MOSTLY = 0.8, 0.75
"""A link is slow that carries less than this share of what the others do, in this share of its transfers."""
_FEWEST_TRANSFERS, _FEWEST_PEERS = 4, 3  # fewer transfers are chance, and of two links neither is the usual one


class _Transfers(Struct, frozen=True):
    """What tasks of planes move over links: of the collective ``owner`` with the ``peer`` of a group; (n,) each.

    ``kind`` is equal for the same group and type of link.
    """

    item: I64
    owner: I64
    peer: I64
    kind: I64
    size: I64
    time: I64
    link: I64

    def taken(self, chosen: Bools) -> _Transfers:
        return _Transfers(*(getattr(self, name)[chosen] for name in self.__struct_fields__))


@once_per_device
def _transfers_in_window(facts: Facts) -> _Transfers:
    """All of them in the window, by task."""
    every, planes = facts.collectives.item, facts.inputs.planes()
    owner, _, item = owned_tasks(facts.trace, every)
    item, first = np.unique(item, return_index=True)
    row, owner = np.searchsorted(planes.item, item), owner[first]
    moving = (planes.over(lambda name: name not in (ON_CHIP, "", "INVALID_TYPE")) & (planes.size > 0))[row]
    row, owner, item = row[moving], owner[moving], item[moving]
    peer = np.where(planes.target_rank[row] != planes.source_rank[row], planes.target_rank[row], -1).astype(np.int64)
    kind = facts.trace.slices.lane[every[owner]].astype(np.int64) * len(planes.links) + planes.link[row]
    time = np.maximum(facts.length(item), 1)
    return _Transfers(item, owner, peer, kind, planes.size[row], time, planes.link[row].astype(np.int64))


class SlowLink(Struct, frozen=True):
    """The link with ``peer``: its ``speed`` and the ``usual`` one of others in the same collectives, GB/s.

    The collectives ``owner`` of the window end later for it, by ``saved`` ns; (n,) each. One that falters has that
    speed in ``count`` of ``all`` its equal transfers, the usual one in the others.
    """

    peer: int | Message
    speed: float
    usual: float
    owner: I64
    saved: I64
    count: int = 0
    all: int = 0


def slow_links(facts: Facts) -> list[SlowLink]:
    """The links that are slower than the others of their kind in the same group, and those that are slow now and then.

    The one that costs most comes first.
    """
    every, slices, moved = facts.collectives, facts.trace.slices, _transfers_in_window(facts)
    names = facts.inputs.planes().links
    moved = moved.taken((moved.peer >= 0) & (moved.size >= LARGE_BYTES) & (transports_over(names) != "")[moved.link])
    speed, end = moved.size / moved.time, slices.end[moved.item]
    alike = distinct(moved.owner * len(names) + moved.link)[1]
    count_of = np.bincount(alike)
    usual = speed[np.lexsort((speed, alike))][np.cumsum(count_of) - count_of + count_of // 2][alike]
    below = speed < _SLOWER * usual
    links = in_groups(moved.kind * (int(moved.peer.max(initial=0)) + 1) + moved.peer)
    peers = Counter(int(moved.kind[members[0]]) for members in links)
    links = [members for members in links if peers[int(moved.kind[members[0]])] >= _FEWEST_PEERS]
    slow = [members for members in links if len(members) >= _FEWEST_TRANSFERS and below[members].mean() >= _MOSTLY]
    others = np.ones(len(moved.owner), np.bool_)
    others[[row for members in slow for row in members.tolist()]] = False
    counts = [0] * len(slow)
    peer, size = (
        column - column.min(initial=0) for column in (moved.peer, np.log2(moved.size).round().astype(np.int64))
    )
    equal = (moved.kind * (int(peer.max(initial=0)) + 1) + peer) * (int(size.max(initial=0)) + 1) + size
    faltered, falters = np.zeros(len(moved.owner), np.bool_), []
    for members in in_groups(np.where(others, equal, -1)):
        slowly = faltering(speed[members]) if others[members[0]] else None
        if slowly is not None:
            usual[members] = np.median(speed[members[~slowly]])
            faltered[members] = slowly
            falters.append((members[slowly], len(members)))
    for members, count in falters:
        beside = np.isin(moved.owner, moved.owner[members]) & (moved.peer != moved.peer[members[0]])
        if not faltered[beside].sum() > HALF * beside.sum():  # else it is no matter of one link
            slow.append(members)
            counts.append(count)
    others[[row for members in slow for row in members.tolist()]] = False
    in_time = slices.start[every.item].copy()
    np.maximum.at(in_time, moved.owner[others], end[others])
    found = []
    for members, all_equal in zip(slow, counts, strict=True):
        owner, last, excess = moved.owner[members], in_time.copy(), np.zeros(len(every))
        np.maximum.at(last, owner, end[members])
        np.add.at(excess, owner, moved.time[members] * (1.0 - speed[members] / usual[members]).clip(0.0))
        saved = np.minimum(excess.astype(np.int64), last - in_time)
        lane, place = int(slices.lane[every.item[owner[0]]]), int(moved.peer[members[0]])
        ranks = ranks_of_group(facts.trace.lanes[lane].name, facts.inputs.setup.groups)
        peer = peer_at(int(every.group[owner[0]]), ranks[place] if place < len(ranks) else place)
        same_kind = others & (moved.kind == moved.kind[members[0]])
        of_others = float(usual[members[0]] if all_equal else np.median(speed[same_kind]))
        owner, own = np.unique(owner), float(np.median(speed[members]))
        count = len(members) if all_equal else 0
        found.append(SlowLink(number_of(facts, peer), own, of_others, owner, saved[owner], count, all_equal))
    return sorted(found, key=lambda each: -int(each.saved.sum()))


def link(facts: Facts) -> Draft | None:
    """Transfers that the link serves badly: unaligned, small, in contention, or sent again."""
    limits = facts.limits
    problems: list[tuple[Severity, Message, Message, list[int]]] = []
    slow = slow_links(facts)
    removes, change = _without_slow(facts, slow)
    for each in slow:
        words = {"rank": each.peer, "count": len(each.owner), "time": int(each.saved.sum())}
        text = message("finding.link.slow_ends", **words)
        severity = severity_of(facts.limits, facts.share(length_of(removes))) if words["time"] else "info"
        items = facts.collectives.item[each.owner].tolist()
        problems.append((severity, text, message("finding.advice.slow_link"), items))
    # Fast transfers need no other sizes, and what is slow for one link gains nothing by them.
    moved, items, speed = _transfers_in_window(facts), facts.collectives.item, _sdma_speeds(facts)
    others = np.ones(len(items), np.bool_)
    others[[row for each in slow for row in each.owner.tolist()]] = False
    slowly = others & ~(speed >= limits[CONTENTION_GB_S])
    odd = moved.taken((moved.size > limits[ALIGNMENT_BYTES]) & (moved.size % limits[ALIGNMENT_BYTES] != 0))
    unaligned = np.unique(odd.owner)
    matters = _matters(facts, items[unaligned[slowly[unaligned]]])
    if len(unaligned) and (matters or not slow):
        _, time = facts.collectives.moved.sums(len(items))
        share = int(time[unaligned].sum()) / max(int(time.sum()), 1)
        severity = "low" if matters else "info"  # what it would gain is not known
        text = message("finding.link.unaligned", count=len(unaligned), bytes=limits[ALIGNMENT_BYTES], share=share)
        problems.append(
            (severity, text, message("finding.advice.align", bytes=limits[ALIGNMENT_BYTES]), items[unaligned].tolist())
        )
    for kind, most in (("SDMA", limits[SMALL_PACKET_SDMA_MB]), ("RDMA", limits[SMALL_PACKET_RDMA_MB])):
        carried = moved.taken((transports_over(facts.inputs.planes().links) == kind)[moved.link])
        small = carried.taken(carried.size < most * 1e6)
        share = len(small.item) / max(len(carried.item), 1)
        if share > limits[SMALL_PACKET_SHARE] and _matters(facts, small.item[slowly[small.owner]]):
            text = message("finding.link.small", kind=kind, share=share, most=most)
            problems.append(("low", text, message("finding.advice.larger_packets"), small.item.tolist()))
    contended = _beside_products(facts, items[others & (speed < limits[CONTENTION_GB_S])])
    if len(contended) and _matters(facts, contended):
        text = message("finding.link.contention", count=len(contended), speed=limits[CONTENTION_GB_S])
        problems.append(("low", text, message("finding.advice.contention"), contended.tolist()))
    if again := _sent_again(facts):
        text = message("finding.link.again", count=len(again))
        problems.append(("high", text, message("finding.advice.rdma"), again))
    found = draft_of_links(
        min((severity for severity, *_ in problems), key=SEVERITIES.index, default="info"),
        [(text, [facts.place(item, text) for item in items[:5]]) for _, text, _, items in problems],
        tuple(advice for _, _, advice, _ in problems),
        shown=facts.span_of(np.unique([item for *_, items in problems for item in items])) if problems else None,
    )
    if found is None or not slow:
        return found
    led, exposed = slow[0], facts.per_unit(length_of(removes))
    told: dict[str, object] = {"rank": led.peer, "each": exposed, "speed": led.speed, "usual": led.usual}
    title = message(f"finding.link.{'falters' if led.all else 'slow'}", count=led.count, all=led.all, **told)
    now_and_then = [message("finding.advice.falters")] if led.all else []
    advice = (*now_and_then, *(found.advice or ()), message("finding.advice.links_of_job", rank=led.peer))
    return replace(found, title=title, advice=advice, removes=removes, change=change, reach="cause")


def _without_slow(facts: Facts, slow: Sequence[SlowLink]) -> tuple[Span, Change]:
    """The exposed time that slow links cost, and the run in which they are as fast as the others."""
    every = facts.collectives
    saved = np.zeros(len(every), np.int64)
    for each in slow:
        saved[each.owner] = np.maximum(saved[each.owner], each.saved)
    end = facts.trace.slices.end[every.item]
    removes = common(facts.exposed, union(end - saved, end))
    return removes, Change(tasks=shortened_collectives(facts, saved))


def draft_of_links(
    severity: Severity,
    problems: Sequence[tuple[Message, Sequence[Evidence]]],
    advice: tuple[Message, ...],
    confidence: Confidence = "high",
    shown: Span | None = None,
) -> Draft | None:
    """One finding about all ``problems``, each with the first places that prove it, and where it is ``shown`` at all.

    None without any.
    """
    if not problems:
        return None
    first, count = problems[0][0], len(problems)
    return Draft(
        severity,
        message("finding.link.title", first=first) if count == 1 else message("finding.link.titles", count=count),
        sentences(*(message("finding.link.sentence", text=text) for text, _ in problems)),
        tuple(place for _, places in problems for place in places),
        advice,
        confidence=confidence,
        shown=shown,
    )


def all_links(facts: Facts) -> Draft | None:
    """Large transfers, nearly all of which reach a small part of what is usual, over every link of a type."""
    every, names = facts.collectives, facts.inputs.planes().links
    types = [name.partition("_")[0].upper() for name in names]
    moved = _transfers_in_window(facts)
    moved = moved.taken(moved.size >= LARGE_BYTES)
    usual = np.array([*(_USUAL_SPEEDS.get(kind, np.nan) for kind in types), np.nan])[moved.link]
    part = moved.size / moved.time / usual
    kept = np.ones(len(part))
    for kind in np.unique(moved.link[np.isfinite(usual)]).tolist():
        rows = moved.link == kind
        if np.quantile(part[rows], ALMOST_ALL) < facts.limits[LINK_SPEED]:
            kept[rows] = part[rows]
    slow = kept < 1
    # For a link alone, in both directions, it is unknown whether the others are slow as well.
    if len(np.unique(moved.peer[slow])) < _FEWEST_PEERS:
        return None
    # Links of a type move at the same time, those of another one before or after them.
    total, excess = np.zeros((2, len(every)))
    for rows in in_groups(moved.owner * (len(names) + 1) + moved.link):
        of_link = moved.time[rows] / len(np.unique(moved.peer[rows]))
        total[moved.owner[rows[0]]] += of_link.sum()
        excess[moved.owner[rows[0]]] += (of_link * (1 - kept[rows])).sum()
    moving = np.minimum((facts.length(every.item) - np.maximum(every.waited, 0)).clip(0), total)
    spared = np.rint(moving * excess / np.maximum(total, 1)).astype(np.int64)
    end = facts.trace.slices.end[every.item]
    removes = common(facts.exposed, union(end - spared, end))
    change = Change(tasks=shortened_collectives(facts, spared))
    cost = cost_of(facts, change, removes)
    if facts.share(cost) < facts.limits[SEVERITY_MEDIUM]:
        return None
    ((leading, _),) = Counter(moved.link[slow].tolist()).most_common(1)
    own = moved.link == leading
    buffer = (facts.inputs.setup.environment or {}).get("HCCL_BUFFSIZE", "")
    how = "_buffer" * is_small_buffer(buffer)
    words = {"kind": types[leading], "speed": float(np.median((moved.size / moved.time)[own]))}
    words |= {"usual": float(usual[own][0]), "buffer": buffer, "most": _BUFFER_MB, "time": cost / facts.count}
    words |= {"count": int(np.count_nonzero(slow)), "unit": facts.unit}
    note = message("finding.all_links.place")
    return Draft(
        severity_of(facts.limits, facts.share(cost)),
        message(f"finding.all_links.title{how}", **words),
        message(f"finding.all_links.detail{how}", **words),
        facts.longest(every.item[spared > 0], lambda item: note),
        advise(*(["buffer"] if how else []), "all_links"),
        removes=removes,
        confidence="medium",
        change=change,
    )


def is_small_buffer(value: str) -> bool:
    """Whether ``value`` of HCCL_BUFFSIZE, in MB, is below its default."""
    number = whole_number(value)
    return number is not None and 0 < number < _BUFFER_MB


def _matters(facts: Facts, items: I64) -> bool:
    """Whether the device waits for these transfers, not for a rank or a pipeline, long enough to mention it."""
    return facts.share(length_of(common(moving(facts), facts.span_of(items)))) >= facts.limits[SEVERITY_MEDIUM]


def _sdma_speeds(facts: Facts) -> npt.NDArray[np.float64]:
    """What each collective moves over SDMA in a nanosecond, GB/s; not-a-number where that is nothing; (n,)."""
    moved = facts.collectives.moved
    size, time = moved.sums(
        len(facts.collectives), (transports_over(moved.links) == "SDMA")[moved.link] & (moved.transfer != 0)
    )
    speeds: npt.NDArray[np.float64] = np.where(time != 0, size / np.where(time, time, 1), np.nan)
    return speeds


def _sent_again(facts: Facts) -> list[int]:
    """Collectives in which RDMA took as long as it waits before it sends again."""
    every, least = facts.collectives, facts.limits[RETRANSMISSION_MS] * 1e6
    long = (transports_over(every.moved.links) == "RDMA")[every.moved.link] & (every.moved.transfer >= least)
    again = np.zeros(len(every), np.bool_)
    again[every.moved.owner[long]] = True
    collectives: list[int] = every.item[again & (every.elapsed >= least)].tolist()
    return collectives


def _beside_products(facts: Facts, items: I64) -> I64:
    """Those of ``items`` during which a matrix multiplication ran."""
    types, code = facts.kernel_types
    wanted = np.array(["matmul" in name.lower() for name in types] + [False])
    products: I64 = facts.kernels[wanted[code]] if len(facts.kernels) else facts.kernels
    start, end = facts.trace.slices.start, facts.trace.slices.end
    low, high = start[items].astype(np.float64), end[items].astype(np.float64)
    return items[touches(start[products], end[products], low, high)]


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
            SEVERITY_MEDIUM,
            SEVERITY_HIGH,
        ),
        advice=("slow_link", "larger_packets", "contention", "rdma"),
        pages=(pages.ANALYZE, pages.DDP),
        change="""\
-bucket = torch.zeros(n, dtype=torch.float16, device="npu")
+bucket = torch.zeros(-(-n // 256) * 256, dtype=torch.float16, device="npu")
""",
        sources=(
            "msprof-analyze advisor: packet, byte alignment, bandwidth contention, retransmission",
            "operator tuning guide 0-31",
        ),
        words=("hccl",),
    ),
    Rule(
        "COMM.SPEED",
        cls="communication",
        inputs=("device", "overlap", "planes"),
        check=all_links,
        thresholds=(LINK_SPEED, SEVERITY_MEDIUM, SEVERITY_HIGH),
        advice=("buffer", "all_links"),
        pages=(pages.ANALYZE, pages.VARIABLES),
        change="""\
-export HCCL_BUFFSIZE=8
+unset HCCL_BUFFSIZE
""",
        sources=("MindStudio Insight: reference bandwidth of links", "CANN: HCCL_BUFFSIZE"),
        reach="cause",
        replayed=True,
        words=("hccl",),
    ),
)
