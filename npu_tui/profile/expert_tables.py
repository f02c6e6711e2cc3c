"""The experts of a profile: what its rank spends on each MoE layer, and the tables of expert loads and placements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from npu_tui.analysis.experts import (
    ALL_TO_ALL,
    KERNELS,
    OTHER,
    Exchanges,
    ExpertPass,
    Swap,
    best_swap,
    copies_in,
    exchanging,
    expert_passes,
    has_experts,
    layer_sums,
)
from npu_tui.analysis.kernels import KernelTable
from npu_tui.load.formats.experts import ExpertDump, ExpertFiles, ExpertSlots
from npu_tui.profile.table import Column, Span, TableSheet, attribute_rows, columns, from_tuples, table
from npu_tui.strings import say
from npu_tui.trace.arrays import F64, I64
from npu_tui.trace.once import once

if TYPE_CHECKING:  # a job has loads and placements, but no profile
    from npu_tui.profile.profile import Profile


def expert_layers_of(profile: Profile) -> list[ExpertPass]:
    """Every MoE layer of every pass of the whole trace by start, computed once; raises as ``Profile.collectives``."""
    whole = profile.whole
    return whole.known.value(expert_layers_of, lambda: _expert_passes(whole))


def _expert_passes(profile: Profile) -> list[ExpertPass]:
    kernels = profile.all_kernels
    if not has_experts(kernels):
        return []
    from npu_tui.rules.parallelism import launched_backward  # few profiles have experts

    back = [facts.kernels[launched_backward(facts)] for facts in profile.facts if len(facts.kernels)]
    backward = np.isin(kernels.item, np.concatenate([*back, np.zeros(0, np.int64)])) & (kernels.item >= 0)
    slices = profile.trace.slices
    windows = [step.window for step in profile.steps] + [step.window for step in profile.engine.steps]
    begun = [window.start for window in windows if window is not None]
    # Where no launch shows when a step begins on the device, its slice on the host nearly does.
    begun += [int(slices.start[step.item]) for step in profile.steps if step.window is None and step.item >= 0]
    borders = np.array(begun, np.int64)
    if not len(borders) and "step" in kernels.details:  # without a trace kernel_details.csv numbers the steps
        borders = kernels.start[1:][np.diff(kernels.details["step"].code) != 0]
    return expert_passes(kernels, _exchanges(profile, kernels), borders, backward)


def _exchanges(profile: Profile, kernels: KernelTable) -> Exchanges:
    """Whatever may exchange tokens: kernels that do, and collectives by their groups, which are lanes."""
    places = np.array(list(exchanging(kernels)), np.int64)
    every, slices = profile.collectives, profile.trace.slices
    begun, ended, group = slices.start[every.item], slices.end[every.item], slices.lane[every.item].astype(np.int64)
    names = [every.types[kind] for kind in every.type.tolist()]
    if not len(slices):
        frame = profile.tables.communication.frame.drop_nulls(["start", "elapsed", "group", "name"])
        begun = frame["start"].to_numpy().astype(np.int64) - profile.tables.start_ns
        ended = begun + frame["elapsed"].to_numpy().astype(np.int64)
        group, names = frame["group"].rank("dense").to_numpy().astype(np.int64), frame["name"].to_list()
    to_all = np.array(["alltoall" in name.lower().replace("_", "") for name in names], np.bool_)
    start = np.concatenate((kernels.start[places], begun))
    end = np.concatenate((kernels.start[places] + kernels.duration[places], ended))
    kind = np.concatenate((np.full(len(places), KERNELS), np.where(to_all, ALL_TO_ALL, OTHER)))
    group = np.concatenate((np.zeros(len(places), np.int64), group))
    return Exchanges(start, end, kind, group).taken(np.argsort(start, kind="stable"))


_OWN: dict[str, Column] = {
    **columns("whole", "ns", "time", "work dispatch combine"),
    **columns("whole", "", "id", "layer"),
    **columns("whole", "", "count", "passes"),
    **columns("real", "", "mean_count", "tokens"),
    **columns("flag", "", "word", "fused"),
}


def experts(profile: Profile) -> TableSheet:
    """The MoE layers of the part with the time of their expert products and of the exchanges around them."""
    window = profile.window
    rows = layer_sums(row for row in expert_layers_of(profile) if window.start <= row.start < window.end)

    def place(row: int) -> list[Span]:
        longest = sorted(rows[row].passes, key=lambda each: -each.work)
        words = say("experts.layer", layer=rows[row].layer)
        return [Span(each.start, each.end, words=words) for each in longest]

    sheet = attribute_rows(
        rows, "layer tokens work backward dispatch combine fused", _OWN, passes=lambda row: len(row.passes)
    )
    return replace(sheet, place=place, lengths=lambda row: np.array([each.work for each in rows[row].passes], np.int64))


EXPERTS = table(
    "experts",
    experts,
    sql="rank layer passes tokens work backward dispatch combine fused",
    json="layer passes tokens? work backward dispatch? combine? fused",
    page="layer passes tokens work its_backward=backward dispatch combine",
    section="experts",
    row="ExpertRow",
    about="""The experts of one MoE layer, counted from 0: the time of their grouped matrix products in all passes.

    ``dispatch_us`` and ``combine_us`` are the exchanges of tokens before and after, with the waits for other ranks;
    null where none is recorded. ``backward_us`` is the part of ``work_us`` that the backward pass launched.
    ``tokens`` is the mean of rows that a pass computes, null without shapes. ``fused`` products wait for other ranks
    inside, as they exchange tokens themselves.
    """,
    own=_OWN,
)


class Loads:
    """The dumps of one ``phase`` by rank: ``tokens`` of ``experts`` in the slots of every rank and layer.

    Both are (layers, ranks, slots), not-a-number is unknown. The ``placement`` is that which the dumps fit, if any.
    """

    def __init__(self, dumps: Sequence[ExpertDump], placements: Sequence[ExpertSlots]) -> None:
        dumps = sorted(dumps, key=lambda dump: dump.rank)
        self.phase, self.ranks = dumps[0].phase, [dump.rank for dump in dumps]
        self.tokens: F64 = np.stack([dump.tokens for dump in dumps], axis=1)
        self.placement = self._placement(placements)
        if self.placement is None:
            slots = self.tokens.shape[2]
            numbers = np.array(self.ranks)[:, None] * slots + np.arange(slots)
            self.experts: I64 = np.broadcast_to(numbers, self.tokens.shape)
        else:
            self.experts = self.placement.slots[:, [self.placement.devices.index(rank) for rank in self.ranks]]

    def _placement(self, placements: Sequence[ExpertSlots]) -> ExpertSlots | None:
        """The placement that the dumps fit: as many layers and slots, and a device for every rank."""
        fitting = [
            placement
            for placement in placements
            if placement.slots.shape[::2] == self.tokens.shape[::2] and set(self.ranks) <= set(placement.devices)
        ]
        return next((one for one in fitting if self.phase in one.path.name), fitting[0] if fitting else None)

    @property
    def missing(self) -> list[int]:
        """The ranks that have no dump."""
        every = range(self.ranks[-1] + 1) if self.placement is None else self.placement.devices
        return sorted(set(every) - set(self.ranks))

    @once
    def of_rank(self) -> F64:
        """The tokens of every rank in each layer, (layers, ranks)."""
        return np.asarray(np.nansum(self.tokens, axis=2))

    @once
    def swaps(self) -> list[Swap | None]:
        """The best swap of each layer; none where there is one rank."""
        if len(self.ranks) < 2:
            return [None] * len(self.tokens)
        return [best_swap(tokens, experts) for tokens, experts in zip(self.tokens, self.experts, strict=True)]

    @once
    def swapped(self) -> F64:
        """The tokens of the rank with most after the best swap of each layer, (layers,)."""
        most = self.of_rank.max(axis=1)
        return np.array([most[at] if swap is None else swap.most for at, swap in enumerate(self.swaps)])

    def times_mean(self, most: F64 | float) -> float | None:
        """``most`` tokens of a rank, of each layer or in all, over those of the mean rank; None with one rank."""
        mean = max(float(np.nansum(self.tokens)) / len(self.ranks), 1e-9)
        return round(float(np.sum(most)) / mean, 4) if len(self.ranks) > 1 else None

    def saves(self, work: Sequence[float]) -> float | None:
        """What the swaps save where the mean rank spends ``work`` on each layer and the loads are those of the dumps.

        In the unit of ``work``; None where that is not of these layers.
        """
        if len(self.ranks) < 2 or len(work) != len(self.tokens):
            return None
        less = (self.of_rank.max(axis=1) - self.swapped) / np.maximum(self.of_rank.mean(axis=1), 1e-9)
        return round(float((less * np.array(work)).sum()), 3)


def loads_of(files: ExpertFiles) -> list[Loads]:
    """The loads of every phase that ``files`` have dumps of."""
    phases = sorted({dump.phase for dump in files.dumps})
    return [Loads([dump for dump in files.dumps if dump.phase == phase], files.placements) for phase in phases]


_OF_LOADS: dict[str, Column] = {
    **columns("label", "", "name", "phase path"),
    **columns("whole", "", "id", "layer expert slowest swap_expert swap_rank swap_with"),
    **columns("whole", "", "count", "layers experts devices slots redundant twice missing"),
    **columns("real", "", "mean_count", "tokens expert_tokens"),
    **columns("real", "", "ratio", "uneven swapped times_mean expert_uneven"),
    **columns("rows", "", "word", "ranks missing_ranks most_copies"),
    **columns("real", "µs", "time", "saves"),
}


def _expert_uneven(loads: Loads) -> F64:
    """The tokens of the busiest expert of each layer over those of the mean one, (layers,)."""
    known = np.maximum((~np.isnan(loads.tokens)).sum(axis=(1, 2)), 1)
    mean = np.maximum(np.nansum(loads.tokens, axis=(1, 2)) / known, 1e-9)
    return np.asarray(np.nanmax(loads.tokens, axis=(1, 2), initial=0) / mean)


def expert_loads(loads: Sequence[Loads], work: Sequence[float] = ()) -> TableSheet:
    """The dumps of each phase over all layers; ``work`` is what the mean rank spends on each in a step, us."""
    rows = [
        (
            one.phase, one.ranks, one.missing, *one.tokens.shape[::2], float(np.nansum(one.tokens)),
            one.times_mean(one.of_rank.max(axis=1)), one.times_mean(one.swapped), one.saves(work),
        )
        for one in loads
    ]  # fmt: skip
    return from_tuples(rows, "phase ranks missing_ranks layers experts tokens uneven swapped saves", _OF_LOADS)


LOADS = table(
    "expert_loads",
    expert_loads,
    json="phase ranks missing=missing_ranks layers experts tokens uneven? uneven_swapped=swapped? saves?",
    row="ExpertLoadRow",
    about="""The dumps of one phase; ``experts`` are those of a rank, ``missing`` ranks have no dump.

    ``uneven`` is the tokens of the rank with most over those of the mean rank, over all layers; ``uneven_swapped``
    after the best swap in every layer; null with fewer than two ranks. ``saves_us`` is what the swaps save a step of
    the profiles beside the dumps.
    """,
    own=_OF_LOADS,
    types={"ranks": list[int], "missing_ranks": list[int]},
)


def load_ranks(loads: Sequence[Loads]) -> TableSheet:
    """Every rank that has a dump."""
    rows = [
        (one.phase, rank, tokens, one.times_mean(tokens))
        for one in loads
        for rank, tokens in zip(one.ranks, one.of_rank.sum(axis=0).tolist(), strict=True)
    ]
    return from_tuples(rows, "phase rank tokens times_mean", _OF_LOADS)


LOAD_RANKS = table(
    "expert_load_ranks",
    load_ranks,
    json="phase rank tokens times_mean?",
    page="phase rank tokens rank_times=times_mean",
    row="LoadRankRow",
    about="The tokens of a rank over all layers; ``times_mean`` against the mean of the ranks that have a dump.",
    own=_OF_LOADS,
)


def load_layers(loads: Sequence[Loads]) -> TableSheet:
    """Every layer of each phase."""
    rows: list[tuple[Any, ...]] = []
    for one in loads:
        uneven = _expert_uneven(one)
        for layer, (tokens, of_rank, swap) in enumerate(zip(one.tokens, one.of_rank, one.swaps, strict=True)):
            place, slot = np.unravel_index(int(np.argmax(np.nan_to_num(tokens, nan=-1))), tokens.shape)
            most, several, mean = int(np.argmax(of_rank)), len(one.ranks) > 1, max(float(of_rank.mean()), 1e-9)
            swapped: tuple[Any, ...] = (None,) * 4
            if swap is not None:
                swapped = swap.expert, swap.other_expert, one.ranks[swap.other], round(swap.most / mean, 4)
            rows.append(
                (
                    one.phase, layer, float(np.nansum(tokens)), int(one.experts[layer, place, slot]), one.ranks[place],
                    float(tokens[place, slot]), round(float(uneven[layer]), 4),
                    one.ranks[most] if several else None, round(of_rank[most] / mean, 4) if several else None,
                    *swapped,
                )
            )  # fmt: skip
    return from_tuples(rows, _LAYER, _OF_LOADS)


_LAYER = (
    "phase layer tokens expert rank expert_tokens expert_uneven slowest uneven swap_expert swap_with swap_rank swapped"
)
_LAYER_PAGE = (
    "phase layer tokens hot_expert=expert of_rank=rank expert_times=expert_uneven busiest_rank=slowest "
    "rank_times=uneven swap_expert swap_with swap_rank swapped"
)
LOAD_LAYERS = table(
    "expert_load_layers",
    load_layers,
    json="phase layer tokens expert rank expert_tokens expert_uneven slowest? uneven? swap_expert? swap_with? "
    "swap_rank? uneven_swapped=swapped?",
    page=_LAYER_PAGE,
    panel=_LAYER_PAGE,
    row="LoadLayerRow",
    about="""One layer: the expert with most tokens, and how unevenly experts and ranks are loaded (most over mean).

    In the best swap ``swap_expert`` of the rank ``slowest`` changes places with ``swap_with`` of ``swap_rank``;
    ``uneven_swapped`` is that after it. Null with fewer than two ranks, and where no swap improves the layer.
    """,
    own=_OF_LOADS,
)


def placements(placed: Sequence[ExpertSlots]) -> TableSheet:
    """Every placement."""
    rows = []
    for one in placed:
        copies = copies_in(one.slots)
        most = {str(count): copies.most[count] for count in sorted(copies.most, reverse=True)}
        rows.append(
            (one.path.name, *one.slots.shape, copies.experts, copies.redundant, most, copies.twice, copies.missing)
        )
    return from_tuples(rows, "path layers devices slots experts redundant most_copies twice missing", _OF_LOADS)


_PLACEMENT_PAGE = "file=path layers devices slots experts copies=redundant twice"
PLACEMENTS = table(
    "expert_placements",
    placements,
    json="path layers devices slots experts redundant? most_copies twice missing",
    page=_PLACEMENT_PAGE,
    panel=_PLACEMENT_PAGE,
    row="PlacementRow",
    about="""A placement; ``most_copies`` counts layers by the copies that their most copied expert has.

    ``redundant`` slots of a layer hold a further copy, null where layers differ; ``twice`` counts devices of layers
    with two copies of one expert, ``missing`` the experts of some layer that another one does not place.
    """,
    own=_OF_LOADS,
    types={"most_copies": dict[str, int]},
)
