"""The report of expert loads and placements: its JSON document, kind ``experts``, and the page of it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from msgspec import Struct

from npu_tui.analysis.placement import best_swap, copies_in, placed_anew
from npu_tui.load.expert_files import NONE, ExpertFiles, Placement, expert_files_in, read_expert_files
from npu_tui.output.document import Block, Cell, Code, Document, Heading, Items, Paragraph, Table
from npu_tui.output.values import text
from npu_tui.strings import say, words
from npu_tui.trace.text import count_text


class LoadRow(Struct, frozen=True, kw_only=True):
    """The dumps of one phase: ``experts`` are those of a rank, ``uneven`` the tokens of the rank with most over those
    of the mean rank, over all layers; ``uneven_swapped`` after the best swap in every layer, ``uneven_placed`` with all
    slots placed anew. Null: fewer than two ranks have a dump. ``missing`` ranks have none.
    """

    phase: str
    ranks: list[int]
    missing: list[int]
    layers: int
    experts: int
    tokens: float
    uneven: float | None
    uneven_swapped: float | None
    uneven_placed: float | None
    expert_uneven_median: float
    expert_uneven_most: float
    expert_uneven_layer: int
    saves_us: float | None


class LoadRankRow(Struct, frozen=True, kw_only=True):
    """The tokens of a rank over all layers; ``times_mean`` against the mean of the ranks that have a dump."""

    phase: str
    rank: int
    tokens: float
    times_mean: float


class SwapRow(Struct, frozen=True, kw_only=True):
    """The swap of two experts that leaves the least on the rank with most tokens; ``uneven`` is that after it."""

    expert: int
    rank: int
    other_expert: int
    other_rank: int
    uneven: float


class LoadLayerRow(Struct, frozen=True, kw_only=True):
    """One layer: the expert with most tokens, and how unevenly experts and ranks are loaded (most over mean)."""

    phase: str
    layer: int
    tokens: float
    expert: int
    rank: int
    expert_tokens: float
    expert_uneven: float
    slowest: int | None
    uneven: float | None
    swap: SwapRow | None


class PlacementRow(Struct, frozen=True, kw_only=True):
    """A placement; ``most_copies`` counts layers by the copies that their most copied expert has.

    ``redundant`` slots of a layer hold a further copy, null where layers differ; ``twice`` counts devices of layers
    with two copies of one expert.
    """

    path: str
    layers: int
    devices: int
    slots: int
    experts: int
    redundant: int | None
    most_copies: dict[str, int]
    twice: int
    missing: int


class ExpertsReport(Struct, frozen=True, kw_only=True):
    """All that is said of dumps of loads and of placements, schema 1."""

    schema_version: Literal[1] = 1
    kind: Literal["experts"] = "experts"
    path: str
    verdict: list[str]
    loads: list[LoadRow]
    ranks: list[LoadRankRow]
    layers: list[LoadLayerRow]
    placements: list[PlacementRow]
    not_checked: list[str]


def experts_at(path: Path, work: Sequence[float] = ()) -> ExpertsReport | None:
    """The report of the files at ``path``, None where there are none; ``work`` is as in ``experts_report``."""
    paths = expert_files_in(path)
    return experts_report(path, read_expert_files(paths), work) if paths else None


def experts_report(path: Path, files: ExpertFiles, work: Sequence[float] = ()) -> ExpertsReport:
    """All that is said of ``files``; ``work`` is what the mean rank computes for each layer in a step, us."""
    said = [words(problem) for problem in files.problems]
    loads, ranks, layers = [], [], []
    for phase in sorted({dump.phase for dump in files.dumps}):
        load, of_ranks, of_layers = _loads(files, phase, list(work), said)
        loads.append(load)
        ranks += of_ranks
        layers += of_layers
    placements = [_placed(placement) for placement in files.placements]
    return ExpertsReport(
        path=text(str(path)),
        verdict=[*(_verdict(load, layers) for load in loads), *map(_placement_verdict, placements)],
        loads=loads,
        ranks=ranks,
        layers=layers,
        placements=placements,
        not_checked=said,
    )


def _loads(
    files: ExpertFiles, phase: str, work: list[float], said: list[str]
) -> tuple[LoadRow, list[LoadRankRow], list[LoadLayerRow]]:
    dumps = sorted((dump for dump in files.dumps if dump.phase == phase), key=lambda dump: dump.rank)
    tokens = np.stack([dump.tokens for dump in dumps], axis=1)  # (layers, ranks, local experts)
    numbers = [dump.rank for dump in dumps]
    placement = _placement_of(files, phase, tokens.shape, numbers)
    if placement is None and files.placements:
        said.append(say("expert_files.apart", phase=phase, layers=len(tokens), experts=tokens.shape[2]))
    every = range(numbers[-1] + 1) if placement is None else placement.devices
    rows, after, anew = [], 0.0, 0.0
    for layer, loads in enumerate(tokens):
        if placement is None:
            experts = np.array(numbers)[:, None] * loads.shape[1] + np.arange(loads.shape[1])
        else:
            experts = placement.slots[layer, [placement.devices.index(rank) for rank in numbers]]
        row, most = _layer(phase, layer, loads, experts, numbers)
        rows.append(row)
        after, anew = after + most, anew + placed_anew(loads)
    of_rank = np.nansum(tokens, axis=(0, 2))
    mean = float(np.nansum(tokens)) / len(dumps)
    several, least = len(dumps) > 1, max(mean, 1e-9)
    most_loaded = float(np.nansum(tokens, axis=2).max(axis=1).sum())
    counts = np.maximum((~np.isnan(tokens)).sum(axis=(1, 2)), 1)
    uneven = np.nanmax(tokens, axis=(1, 2), initial=0) * counts / np.maximum(np.nansum(tokens, axis=(1, 2)), 1e-9)
    saved = [
        time * (row.uneven - row.swap.uneven)
        for time, row in zip(work, rows, strict=False)
        if row.uneven is not None and row.swap is not None
    ]
    load = LoadRow(
        phase=phase,
        ranks=numbers,
        missing=sorted(set(every) - set(numbers)),
        layers=len(tokens),
        experts=tokens.shape[2],
        tokens=float(np.nansum(tokens)),
        uneven=round(most_loaded / least, 4) if several else None,
        uneven_swapped=round(float(after / least), 4) if several else None,
        uneven_placed=round(float(anew / least), 4) if several else None,
        expert_uneven_median=round(float(np.median(uneven)), 4),
        expert_uneven_most=round(float(uneven.max()), 4),
        expert_uneven_layer=int(np.argmax(uneven)),
        saves_us=round(sum(saved), 3) if several and len(work) == len(rows) else None,
    )
    return load, [
        LoadRankRow(phase=phase, rank=rank, tokens=float(count), times_mean=round(float(count) / least, 4))
        for rank, count in zip(numbers, of_rank.tolist(), strict=True)
    ], rows  # fmt: skip


def _placement_of(files: ExpertFiles, phase: str, shape: tuple[int, ...], ranks: list[int]) -> Placement | None:
    """The placement that the dumps of ``phase`` fit: as many layers and slots, and a device for every rank."""
    fitting = [
        placement
        for placement in files.placements
        if placement.slots.shape[::2] == shape[::2] and set(ranks) <= set(placement.devices)
    ]
    return next((each for each in fitting if phase in each.path.name), fitting[0] if fitting else None)


def _layer(phase: str, layer: int, loads: Any, experts: Any, ranks: list[int]) -> tuple[LoadLayerRow, float]:
    """The row of a layer, and the tokens of the rank with most after the best swap."""
    known = np.where(np.isnan(loads), NONE, loads)
    place, slot = np.unravel_index(int(np.argmax(known)), known.shape)
    of_rank = np.nansum(loads, axis=1)
    mean = max(float(of_rank.mean()), 1e-9)
    usual = max(float(np.nansum(loads)) / max(int((known >= 0).sum()), 1), 1e-9)
    hot = int(np.argmax(of_rank))
    swap = best_swap(loads, experts) if len(ranks) > 1 else None
    row = LoadLayerRow(
        phase=phase,
        layer=layer,
        tokens=float(np.nansum(loads)),
        expert=int(experts[place, slot]),
        rank=ranks[int(place)],
        expert_tokens=float(known[place, slot]),
        expert_uneven=round(float(known[place, slot]) / usual, 4),
        slowest=ranks[hot] if len(ranks) > 1 else None,
        uneven=round(float(of_rank[hot]) / mean, 4) if len(ranks) > 1 else None,
        swap=None
        if swap is None
        else SwapRow(
            expert=swap.expert,
            rank=ranks[swap.place],
            other_expert=swap.other_expert,
            other_rank=ranks[swap.other],
            uneven=round(swap.most / mean, 4),
        ),
    )
    return row, float(of_rank[hot]) if swap is None else swap.most


def _placed(placement: Placement) -> PlacementRow:
    copies, (layers, devices, slots) = copies_in(placement.slots), placement.slots.shape
    most = {str(count): copies.most[count] for count in sorted(copies.most, reverse=True)}
    return PlacementRow(
        path=text(placement.path.name), layers=layers, devices=devices, slots=slots, experts=copies.experts,
        redundant=copies.redundant, most_copies=most, twice=copies.twice, missing=copies.missing,
    )  # fmt: skip


def _verdict(load: LoadRow, layers: list[LoadLayerRow]) -> str:
    args: dict[str, Any] = {
        "phase": load.phase, "rank": load.ranks[0], "count": len(load.ranks), "layers": load.layers,
        "median": load.expert_uneven_median, "most": load.expert_uneven_most, "layer": load.expert_uneven_layer,
    }  # fmt: skip
    if load.uneven is None or load.uneven_swapped is None:
        return say("expert_files.one", **args)
    args |= {"uneven": load.uneven, "swapped": load.uneven_swapped, "placed": load.uneven_placed}
    missing = say("expert_files.missing", count=len(load.missing)) if load.missing else ""
    saves = "" if load.saves_us is None else say("expert_files.saves", saves=load.saves_us * 1e3)
    swapped = [(row.swap, row) for row in layers if row.phase == load.phase and row.swap is not None]
    if not swapped:
        return say("expert_files.even", **args) + missing
    swap, row = max(swapped, key=lambda each: ((each[1].uneven or 0) - each[0].uneven) * each[1].tokens)
    args |= {
        "layer": row.layer, "before": row.uneven, "after": swap.uneven, "expert": swap.expert, "rank": swap.rank,
        "other": swap.other_expert, "other_rank": swap.other_rank,
    }  # fmt: skip
    return say("expert_files.swap", **args) + saves + missing


def _placement_verdict(row: PlacementRow) -> str:
    args = {
        "path": row.path, "layers": row.layers, "devices": row.devices, "slots": row.slots, "experts": row.experts
    }  # fmt: skip
    copies = say("expert_files.differ") if row.redundant is None else say("expert_files.copies", count=row.redundant)
    twice = say("expert_files.twice", count=row.twice) if row.twice else ""
    missing = say("expert_files.unplaced", count=row.missing) if row.missing else ""
    return say("expert_files.placement", **args) + copies + twice + missing


def experts_document(report: ExpertsReport) -> Document:
    """What ``report`` says."""
    blocks: list[Block] = [Paragraph(tuple(report.verdict), "verdict")]
    blocks += [table for table in experts_blocks(report) if table.rows]
    if report.not_checked:
        blocks += [Heading(say("job.not_checked")), Items(tuple(report.not_checked))]
    blocks.append(Code((f"npu-tui report {shlex.quote(report.path)} --format json",)))
    return Document(f"npu-tui: {report.path}", blocks)


def experts_part(report: ExpertsReport | None) -> Iterator[Block]:
    """What stands of dumps and placements beside profiles in the report of these; nothing without any."""
    if report is not None:
        yield Heading(say("expert_files.beside"))
        yield Paragraph((*report.verdict, *report.not_checked))
        yield from (table for table in experts_blocks(report) if table.rows)


def experts_blocks(report: ExpertsReport) -> Iterator[Table]:
    """The tables of ``report``: of each phase ranks and layers, then placements."""
    for load in report.loads:
        ranks = [row for row in report.ranks if row.phase == load.phase and len(load.ranks) > 1]
        yield _table(
            "ranks", "rank# tokens# times_mean#", ranks,
            lambda row: [_id(row.rank), _count(row.tokens), _ratio(row.times_mean)],
            [row.times_mean for row in ranks], load.phase,
        )  # fmt: skip
        layers = [row for row in report.layers if row.phase == load.phase]
        yield _table(
            "layers",
            "layer# tokens# hot_expert# of_rank# expert_times# slowest# times_mean# swap swapped#",
            layers,
            lambda row: [
                _id(row.layer), _count(row.tokens), _id(row.expert), _id(row.rank), _ratio(row.expert_uneven),
                _id(row.slowest), _ratio(row.uneven), Cell(_swap(row)),
                _ratio(None if row.swap is None else row.swap.uneven),
            ],
            [row.uneven or row.expert_uneven for row in layers],
            load.phase,
        )  # fmt: skip
    yield _table(
        "placements", "file layers# devices# slots# experts# copies# twice#", report.placements,
        lambda row: [
            Cell(row.path, name=True), _count(row.layers), _count(row.devices), _count(row.slots),
            _count(row.experts), _id(row.redundant), _count(row.twice),
        ],
    )  # fmt: skip


def _table(
    id_: str, columns: str, rows: list[Any], cells: Callable[[Any], list[Cell]], weights: Sequence[float] = (),
    phase: str = "",
) -> Table:  # fmt: skip
    """A table without the columns that have no word."""
    names, made = columns.split(), [cells(row) for row in rows]
    some = [at for at in range(len(names)) if any(row[at].text for row in made)]
    return Table(
        f"expert_{id_}_{phase}".rstrip("_"),
        say(f"expert_files.table.{id_}", phase=phase),
        tuple(say(f"expert_files.column.{names[at].rstrip('#')}") for at in some),
        tuple(names[at].endswith("#") for at in some),
        [[row[at] for at in some] for row in made],
        weights=tuple(weights),
    )


def _swap(row: LoadLayerRow) -> str:
    swap = row.swap
    return "" if swap is None else f"{swap.expert} ({swap.rank}) ↔ {swap.other_expert} ({swap.other_rank})"


def _id(value: int | None) -> Cell:
    return Cell("" if value is None else str(value), value)


def _count(value: float) -> Cell:
    return Cell(count_text(round(value)), value)


def _ratio(value: float | None) -> Cell:
    return Cell("" if value is None else f"{value:.2f}", value)
