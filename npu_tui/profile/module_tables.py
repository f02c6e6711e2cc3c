"""The tables of modules, of fusion, and of the code of replayed kernels that another profile lends.

Fusion is about which fused operators ran, and which runs one of them could replace.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import partial

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from npu_tui.analysis.borrowed import Borrowed, BorrowError, KernelSide, borrowed
from npu_tui.analysis.code_lines import CodeLine, line_of
from npu_tui.analysis.kernels import Coded
from npu_tui.analysis.modules import Module, lost_of
from npu_tui.analysis.operators import kernel_groups
from npu_tui.load.errors import InputError
from npu_tui.profile.columns import base_of, slowest
from npu_tui.profile.kernels import shapes_in
from npu_tui.profile.profile import Profile
from npu_tui.profile.table import COLUMNS, Array, RankedSlices, TableSheet, attribute_rows, columns, from_tuples, table
from npu_tui.rules.affinity import api_savings, kernel_savings
from npu_tui.strings import ENGLISH, speaking, words
from npu_tui.trace.arrays import I64, in_groups
from npu_tui.trace.recorder import recorder_named

_OWN = {
    **columns("whole", "", "count", "operations kernels"),
    **columns("real", "", "flops", "flops"),
    **columns("real", "0..1", "share", "mfu"),
    **columns("flag", "", "word", "borrowed"),
}


def modules(profile: Profile) -> TableSheet:
    """The modules of the part as a tree, each before those in it; the last row, without a name, is in no module."""
    rows = [*profile.modules, *borrowed_modules(profile)]
    total = sum(row.total for row in rows if row.path is None or len(row.path) == 1)
    facts = profile.facts
    peak = facts[0].peak_tflops * 1e3 if facts else 0.0  # FLOP per ns

    def mfu(row: Module) -> float | None:
        if not (peak and row.half and row.total and row.flops > 0):
            return None  # the peaks of chips are those of 16 bits
        return row.flops / row.total / peak

    def calls(row: int) -> Array:
        return rows[row].items

    sheet = attribute_rows(
        rows,
        "calls operations kernels device_self total lost flops borrowed",
        _OWN,
        name=lambda row: row.path and row.path[-1],
        path=lambda row: row.path and "/".join(row.path),
        depth=lambda row: row.path and len(row.path) - 1,
        device_total=lambda row: None if row.path is None else row.device_total,
        backward=lambda row: None if row.path is None else row.backward,
        share=lambda row: row.total / total if total else None,
        mfu=mfu,
    )
    return replace(sheet, base=base_of(facts), **slowest(profile, calls))


MODULES = table(
    "modules",
    modules,
    sql="rank name path depth calls operations kernels device_self device_total backward total lost flops mfu borrowed",
    json="name? path? depth? count=calls? operations? kernels device_self forward=device_total? backward? total lost? "
    "flops? mfu? borrowed",
    page="module=name count=calls? kernels forward=device_total its_backward=backward total lost flops mfu?",
    panel="module=name total share forward=device_total its_backward=backward device_self lost flops mfu kernels "
    "operations count=calls",
    section="modules",
    row="ModuleRow",
    about="""What an ``nn.Module`` launched with those in it (``device_self``: without); ``name`` None: in no module.

    Collectives are left out. ``flops`` counts products, convolutions and no others, None where a kernel of matrices,
    such as attention, has unknown FLOP. ``mfu`` is over the time of its kernels, None without a peak of the chip. A
    ``borrowed`` row is of replayed kernels, whose module another profile tells (``--eager``): it has no calls.
    """,
    own=_OWN,
)


def borrow(profile: Profile, eager: Profile) -> Borrowed:
    """The code of the kernels that ``profile`` replays by what ``eager`` launched; its tables have it from now on.

    Raises ``InputError`` where there is none.
    """
    try:
        profile.whole.borrowed = found = borrowed(_kernel_side(profile.whole), _kernel_side(eager.whole))
    except BorrowError as error:
        raise InputError(error.message) from error
    return found


def _kernel_side(profile: Profile) -> KernelSide:
    starts = [step.window.start for step in profile.steps if step.window is not None and step.number is not None]
    if not starts and profile.facts:  # what repeats in a run without steps
        starts = profile.facts[0].repetitions.tolist()
    shapes_of = shapes_in(profile.trace)
    return KernelSide(profile.trace, profile.devices, profile.all_kernels, np.array(starts, np.int64), shapes_of)


def code_of(profile: Profile, item: int) -> CodeLine | None:
    """The line of the slice ``item`` or of what launched it; for a replayed kernel the borrowed one, if there is."""
    found = profile.whole.borrowed
    return (None if found is None else found.line_at(item)) or line_of(profile.trace, item)


def borrowed_of(found: Borrowed, items: I64) -> dict[str, Coded]:
    """Operation, module and line of each of ``items``, and how sure they are: ``unique``, ``several`` or ``other``.

    One of ``several`` has what all its places share; ``other``: too little fits, so that only operations are borrowed.
    """
    sure = np.where(found.fits, np.where(found.unique, 0, np.where(found.placed, 1, -1)), 2)
    lines = [f"{line.file}:{line.line} {line.function}" for line in found.lines]
    columns = {
        "operation": found.operation,
        "module": found.module,
        "code": Coded(lines, found.line),
        "borrowed": Coded(["unique", "several", "other"], np.where(found.operation.code >= 0, sure, -1)),
    }
    at = found.of(items)
    return {name: Coded(each.values, np.where(at >= 0, each.code[at], -1)) for name, each in columns.items()}


_OF_BORROWED = columns("label", "", "name", "module") | columns("whole", "", "count", "unique")


class _Replayed(Struct, frozen=True):
    """The kernels that ``found`` is about: how long each takes, waits and was late, ns; ``inside`` are in the part."""

    found: Borrowed
    lengths: I64
    waits: I64
    lost: I64
    inside: I64


def _replayed_modules(profile: Profile) -> _Replayed | None:
    found = profile.whole.borrowed
    if found is None:
        return None
    slices = profile.trace.slices
    lost = np.maximum(lost_of(profile.trace, profile.dispatch).of(found.item), 0)
    return _Replayed(
        found,
        slices.end[found.item] - slices.start[found.item],
        profile.all_kernels.of_slices(found.item).wait,
        lost,
        np.flatnonzero(profile.window.holds(slices.start[found.item])),
    )


class _BorrowedRow:
    """Replayed kernels of one operation, class of module and line."""

    def __init__(self, replayed: _Replayed, at: I64) -> None:
        found, first = replayed.found, int(at[0])
        lengths, waits, lost = replayed.lengths, replayed.waits, replayed.lost
        self.operation, self.module, self.code = found.operation.at(first), found.kind.at(first), found.line_of(first)
        self.items = found.item[at][np.argsort(-lengths[at], kind="stable")]
        self.unique = int((found.unique & found.fits)[at].sum())
        self.total, self.wait, self.lost = int(lengths[at].sum()), int(waits[at].sum()), int(lost[at].sum())


def borrowed_modules(profile: Profile) -> list[Module]:
    """The modules of the replayed kernels of the part, each before those in it, most time first."""
    replayed = _replayed_modules(profile)
    if replayed is None:
        return []
    found, inside = replayed.found, replayed.inside
    members: dict[tuple[str, ...], list[I64]] = {}
    of_path: dict[tuple[str, ...], I64] = {}
    for code in np.unique(found.module.code[inside]).tolist():
        at = inside[found.module.code[inside] == code]
        path = tuple(found.module.values[code].split("/")) if code >= 0 else ()
        of_path[path] = at
        for depth in range(1, len(path) + 1):
            members.setdefault(path[:depth], []).append(at)
    rows = {}
    for path, parts in members.items():
        at = np.concatenate(parts)
        own = int(replayed.lengths[of_path.get(path, inside[:0])].sum())
        total, lost = int(replayed.lengths[at].sum()), float(replayed.lost[at].sum())
        items = np.sort(found.item[at])
        rows[path] = Module(path, None, None, len(at), own, total, 0, lost, math.nan, False, items, True)

    def place(path: tuple[str, ...]) -> list[tuple[int, str]]:
        return [(-rows[path[:depth]].total, path[depth - 1]) for depth in range(1, len(path) + 1)]

    return [rows[path] for path in sorted(rows, key=place)]


def borrowed_lines(profile: Profile, code: CodeLine | None, items: I64) -> list[tuple[CodeLine | None, I64]]:
    """The kernels ``items``, whose launches come from the line ``code``, by line: by the borrowed ones if it is None.

    The second of every pair are positions in ``items``.
    """
    found = profile.whole.borrowed
    if found is None or code is not None:
        return [(code, np.arange(len(items)))]
    position = found.of(items)
    line = np.where(position >= 0, found.line[position], -1)
    return [(found.lines[line[at[0]]] if line[at[0]] >= 0 else None, at) for at in in_groups(line)]


def rows_of(profile: Profile) -> list[_BorrowedRow]:
    """The replayed kernels of the part by operation, class of module and line, most time first; unknown ones last."""
    replayed = _replayed_modules(profile)
    if replayed is None:
        return []
    found, inside = replayed.found, replayed.inside
    codes = np.stack([found.operation.code, found.kind.code, found.line])[:, inside]
    _, group = np.unique(codes, axis=1, return_inverse=True)
    rows = [_BorrowedRow(replayed, inside[at]) for at in in_groups(group.reshape(-1))]
    return sorted(rows, key=lambda row: (row.operation is None and row.code is None, -row.total))


def borrowed_code(profile: Profile) -> TableSheet:
    """The code of replayed kernels; the last row, without an operation, has those that are not placed."""
    rows = rows_of(profile)
    total = sum(row.total for row in rows)

    def lengths(row: int) -> I64:
        items = rows[row].items
        return profile.trace.slices.end[items] - profile.trace.slices.start[items]

    sheet = attribute_rows(
        rows,
        "operation module unique total wait lost",
        _OF_BORROWED,
        calls=lambda row: len(row.items),
        share=lambda row: row.total / total if total else None,
        file=lambda row: row.code and row.code.file,
        line=lambda row: row.code and row.code.line,
        function=lambda row: row.code and row.code.function,
    )
    return replace(
        sheet,
        place=lambda row: RankedSlices(len(rows[row].items), partial(getattr, rows[row], "items")),
        lengths=lengths,
        code=lambda row: rows[row].code,
        base=base_of(profile.facts),
    )


BORROWED_CODE = table(
    "borrowed_code",
    borrowed_code,
    sql="rank operation module file line function calls unique total share wait lost",
    json="operation? module? file? line? function? count=calls unique total share? wait lost",
    page="total share count=calls unique its_wait=wait lost operation module place",
    panel="total share count=calls unique its_wait=wait lost operation module line=place",
    row="BorrowedCodeRow",
    about="""Kernels that graphs replay, by the operation, class of module and line that were borrowed for them.

    ``unique`` counts those with a single place in the other profile, the others have what all their places share.
    ``wait_us`` is how long nothing ran before them, ``lost_us`` what launches of graphs lost that begin with them. The
    row without an operation is of kernels that are not placed.
    """,
    own=_OF_BORROWED,
)


FUSED = re.compile(
    r"FlashAttention|FusedInferAttention|RotaryMul|RotaryPosition|ApplyRotary|RmsNorm|AddLayerNorm|SwiGlu|GeGlu|"
    r"ScaledMasked|MatmulAllReduce|AllGatherMatmul|MatmulReduceScatter|AlltoAll.*MatMul|GroupedMatmul|^FFN|"
    r"MoeDistribute|MoeGating|ApplyFused|FusedAdam|MlaProlog|DequantSwiglu",
    re.IGNORECASE,
)
"""Types of kernels that do at once what several did, by the fused operators of CANN and torch_npu."""

_OF_FUSION = columns("label", "", "word", "fusion", "fusion") | columns("label", "", "name", "pattern use")


Row = tuple[str, str, int, int, str | None]
"""How it is, what runs, how often, its time on the device in ns, and what could replace it."""


def fusion(profile: Profile) -> TableSheet:
    """What is fused, then what is not and could be; most device time first."""
    rows = [*_fused(profile), *_not_fused(profile)] if recorder_named(profile.kind).names_fused else []
    return from_tuples(rows, "fusion pattern calls total use", COLUMNS | _OF_FUSION)


def _fused(profile: Profile) -> Iterator[Row]:
    for group in kernel_groups(profile.kernel_table, "type"):
        if FUSED.search(group.type):
            yield "fused", group.type, group.count, group.total, None


def _not_fused(profile: Profile) -> list[Row]:
    rows: dict[tuple[str, str], tuple[int, int]] = {}
    for facts in profile.facts:
        for saved in (kernel_savings(facts), api_savings(facts)):
            for api, saving in saved.items():
                with speaking(ENGLISH):  # as in all cells of tables
                    key = saving.places[0][2], words(api)
                count, time = rows.get(key, (0, 0))
                rows[key] = count + saving.count, time + saving.time
    listed: list[Row] = [("not_fused", pattern, *sums, use) for (pattern, use), sums in rows.items()]
    return sorted(listed, key=lambda row: -row[3])


FUSION = table(
    "fusion",
    fusion,
    sql="rank fusion pattern calls total use",
    json="fusion pattern count=calls total use?",
    page="fusion pattern count=calls total use?",
    panel="fusion pattern count=calls total use",
    section="fusion",
    tab=True,
    row="FusionRow",
    about="""A fused operator that ran, or a run that one could replace (``use``), whose first place is ``pattern``.

    Runs of operations and runs of kernels are listed each; the same work may be in both.
    """,
    own=_OF_FUSION,
)
