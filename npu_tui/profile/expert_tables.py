"""The experts of a profile: every MoE layer of every pass, and the table of what its rank spends on them."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from npu_tui.analysis.experts import (
    ALL_TO_ALL,
    KERNELS,
    OTHER,
    Exchanges,
    ExpertPass,
    exchanging,
    expert_passes,
    has_experts,
    layer_sums,
)
from npu_tui.analysis.kernels import KernelTable
from npu_tui.profile.profile import Profile
from npu_tui.profile.table import Column, Span, TableSheet, columns, listed, table
from npu_tui.strings import say


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
    # Where no launch tells when a step begins on the device, its slice on the host does nearly.
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

    sheet = listed(
        rows,
        "layer tokens work backward dispatch combine fused",
        _OWN,
        passes=lambda row: len(row.passes),
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
