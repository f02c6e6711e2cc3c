"""The code of replayed kernels, borrowed from a profile in which the host launched the same kernels one by one.

A captured graph is one launch: its kernels have no operation, module or line. An eager profile of the same model, or
one of the capture, has them. Both sides are sequences of kernels, one a step, which are aligned; a pair counts where no
other longest alignment has it elsewhere.

A launch comes from an operation with shapes of its inputs, modules around it and a line of code.

In torch_npu a launch is an operation with a call stack. Of Kineto it is a call of the runtime: operation, modules and
frames of Python are the slices around it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from npu_tui.analysis.alignment import SequencePlacement, placement
from npu_tui.analysis.code_lines import CodeLine, model_line, stack_of
from npu_tui.analysis.device import HOST, named_on
from npu_tui.analysis.kernels import Coded, KernelTable
from npu_tui.analysis.launches import Around, caller_of, graph_calls, graph_launches
from npu_tui.analysis.limits import NAMED, SOME
from npu_tui.analysis.modules import MODULE, ShapesOf
from npu_tui.analysis.overlap import DevicePart
from npu_tui.trace.arrays import I64, Bools
from npu_tui.trace.classes import BETWEEN
from npu_tui.trace.message import SaidError, message
from npu_tui.trace.model import Trace
from npu_tui.trace.recorder import bound_launch_links, launch_links, recorder_of
from npu_tui.trace.transfers import names_like

Keys = list[tuple[str | None, ...]]

ACCEPTED = 0.8
"""Of the kernels of both sides. With a tenth of the names changed 0.89 of both are placed, with half a replay 1.0 and
0.5, with the other mode 0.57 and 0.67."""
_TRIED = 4  # sequences of the other side that are aligned with one of this side: those with most kernels in common


class BorrowError(SaidError):
    """There is nothing to borrow, or nothing to borrow for; ``message`` says why."""


class KernelSide(Struct, frozen=True):
    """One profile: its devices, kernels, and when each step starts on the device, ns (empty: not known)."""

    trace: Trace
    devices: Sequence[DevicePart]
    kernels: KernelTable
    starts: I64
    shapes_of: ShapesOf


class KernelSequence(Struct, frozen=True):
    """Kernels of a step in the order of their launch; (n,) each.

    ``item`` are their slices, in a capture those of the calls, ``launch`` what launched each, ``stream`` where it runs.
    ``keys`` are what each is called, from the finest to the coarsest names.
    """

    name: str
    item: I64
    launch: I64
    stream: I64
    keys: tuple[Keys, ...]

    def __len__(self) -> int:
        return len(self.item)


class Borrowed(Struct, frozen=True):
    """What is known of the replayed kernels ``item``, slices by number; (n,) each.

    ``placed`` have a place in ``sequences`` of the profile at ``path``, ``unique`` a single one. The others have
    ``choices`` places and only what all of these share. ``module`` is a path, ``kind`` the class of the innermost
    module. For kernels of a sequence that fits too little only the ``operation`` is known, and ``fits`` is False.
    """

    path: str
    sequences: tuple[str, ...]
    item: I64
    placed: Bools
    unique: Bools
    fits: Bools
    choices: I64
    operation: Coded
    shapes: Coded
    module: Coded
    kind: Coded
    line: I64
    lines: list[CodeLine]
    covered_there: float
    unplaced: tuple[str, ...]

    @property
    def covered_here(self) -> float:
        """The share of the replayed kernels that have a place."""
        return float(self.placed.mean())

    def of(self, items: I64) -> I64:
        """The position of each of ``items``, -1 of one that is not replayed."""
        at = np.minimum(np.searchsorted(self.item, items), len(self.item) - 1)
        return np.where(self.item[at] == items, at, -1)

    def line_of(self, position: int) -> CodeLine | None:
        """The line of the kernel at ``position``, None if unknown."""
        code = int(self.line[position])
        return self.lines[code] if code >= 0 else None

    def line_at(self, item: int) -> CodeLine | None:
        """The line of the slice ``item``, None if unknown or not replayed."""
        position = int(self.of(np.array([item], np.int64))[0])
        return self.line_of(position) if position >= 0 else None


def borrowed(here: KernelSide, there: KernelSide) -> Borrowed:
    """The code of the replayed kernels of ``here`` by what ``there`` launched. Raises ``BorrowError``."""
    replays = replayed(here)
    if not replays:
        raise BorrowError(message("borrow.no_graph"))
    launched = captured(there) or eager(there)
    if not launched:
        raise BorrowError(message("borrow.no_launches", path=there.trace.path))
    every = np.unique(np.concatenate([sequence.launch for sequence in launched]))
    came = origins(there.trace, every, there.shapes_of)
    if not came.is_known:
        raise BorrowError(message("borrow.no_code", path=there.trace.path))
    labels = _Labels.of(every, came)
    known: dict[object, _PlacedSequence] = {}
    parts = []
    for sequence in replays:
        key = *map(tuple, sequence.keys), tuple(np.unique(sequence.stream, return_inverse=True)[1].tolist())
        if key not in known:
            known[key] = _placed(sequence, launched, labels)
        parts.append(replace(known[key], here=sequence))
    return _merged_parts(here, there, parts, labels, came)


# --- the sequences of both sides


def replayed(side: KernelSide) -> list[KernelSequence]:
    """The kernels that graphs replay, step by step."""
    trace, slices, links = side.trace, side.trace.slices, side.trace.links
    link = bound_launch_links(trace)
    link = link[graph_launches(trace, link)]
    item, launch = links.target_slice[link].astype(np.int64), links.source_time[link]
    # Only the first kernel of a graph may have a link, and of a graph captured before the profiler none.
    alone = [_unlinked(trace, device) for device in side.devices if device.pairs is not None]
    item = np.concatenate([item, *(part[0] for part in alone)])
    launch = np.concatenate([launch, *(part[1] for part in alone)])
    item, first = np.unique(item, return_index=True)
    launch = launch[first]
    known = np.isin(item, side.kernels.item)
    item, launch = item[known], launch[known]
    order = np.lexsort((slices.start[item], launch))
    item, launch = item[order], launch[order]
    return list(_by_step(side, item, item, launch))


def _by_step(side: KernelSide, item: I64, source: I64, launch: I64) -> Iterator[KernelSequence]:
    """The kernels ``item``, which came from ``source``, step by step; ``launch`` ascends."""
    slices, keys = side.trace.slices, _kernel_keys(side, item)
    for at in _step_positions(slices.start[item], launch, keys[0], side.starts):
        of_step = tuple([key[k] for k in at] for key in keys)
        yield KernelSequence("", item[at], source[at], slices.lane[item[at]].astype(np.int64), of_step)


def _unlinked(trace: Trace, device: DevicePart) -> tuple[I64, I64]:
    """The kernels of ``device`` that a graph may have replayed without a link, and when that was launched."""
    pairs = device.pairs
    if pairs is None or device.slices is None:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    calls = graph_calls(trace)
    lanes = np.unique(trace.slices.lane[device.slices.collective])
    graph, item = pairs.graph, pairs.unlinked
    chosen = (graph >= 0) | (np.ones(len(item), np.bool_) if len(calls) or not len(pairs.link) else False)
    chosen &= device.slices.compute[item] & ~np.isin(trace.slices.lane[item], lanes)
    before = np.searchsorted(calls, trace.slices.start[item], "right") - 1
    called = calls[before] if len(calls) else np.zeros(len(item), np.int64)
    by_pair = trace.links.source_time[pairs.link[graph]] if len(pairs.link) else called
    return item[chosen], np.where(graph >= 0, by_pair, called)[chosen]


def eager(side: KernelSide) -> list[KernelSequence]:
    """The kernels that the host launched one by one, step by step; each distinct sequence once."""
    trace, links = side.trace, side.trace.links
    link = launch_links(trace)
    link = link[np.isin(links.target_slice[link], side.kernels.item)]
    link = link[~graph_launches(trace, link)]
    item, first = np.unique(links.target_slice[link].astype(np.int64), return_index=True)
    link = link[first]
    order = np.argsort(links.source_time[link], kind="stable")
    item, link = item[order], link[order]
    operation = caller_of(trace, item)
    known = operation >= 0
    item, operation = item[known], operation[known]
    found: dict[object, KernelSequence] = {}
    for sequence in _by_step(side, item, operation, np.arange(len(item))):
        found.setdefault(tuple(sequence.keys[0]), sequence)
    return list(found.values())


_BEGIN, _END = (re.compile(rf"\w+Stream{word}Capture\w*|(?:\w+@)?aclmdlRICapture{word}") for word in ("Begin", "End"))
_CAPTURE = re.compile(r"capture_\d+_\w+")
"""The range that vLLM and SGLang write around the capture of one batch size."""


def capture_time(trace: Trace) -> int:
    """For how long the host captures graphs, ns: launches are recorded then, and nothing runs."""
    slices, begin, end = trace.slices, _ranges_named(trace, _BEGIN), _ranges_named(trace, _END)
    if not len(begin) or not len(end):
        return 0
    last = np.searchsorted(slices.start[end], slices.start[begin])
    known = last < len(end)
    return int((slices.end[end[last[known]]] - slices.start[begin[known]]).sum())


def captured(side: KernelSide) -> list[KernelSequence]:
    """The launches of each capture, by the kernel that the call names; a piecewise one is many captures in a range."""
    trace, slices = side.trace, side.trace.slices
    begin, end, ranges = (_ranges_named(trace, pattern) for pattern in (_BEGIN, _END, _CAPTURE))
    if not len(begin) or not len(end):
        return []
    calls = np.flatnonzero(slices.category == slices.category[begin[0]])
    (kernel,) = trace.args.columns(slices.event[calls], ("kernel",))
    calls, name = calls[kernel.text_codes >= 0], kernel.text_codes[kernel.text_codes >= 0]
    order = np.argsort(slices.start[calls], kind="stable")
    calls, name = calls[order], name[order]
    # Only calls between a begin and the next end of a capture are recorded into a graph; the others run at once.
    at = np.searchsorted(slices.start[begin], slices.start[calls], "right") - 1
    until = np.searchsorted(slices.start[end], slices.start[calls], "right")
    inside = (at >= 0) & (until == at)
    calls, name = calls[inside], name[inside]
    # vLLM captures piecewise: many captures in one range, which is one sequence of kernels.
    of_range = np.searchsorted(slices.start[ranges], slices.start[calls], "right") - 1
    return [
        KernelSequence(
            trace.name_of(int(ranges[number])) if number >= 0 else "",
            calls[members],
            calls[members],
            np.zeros(len(members), np.int64),
            ([(kernel.texts[code],) for code in name[members].tolist()],),
        )
        for number in np.unique(of_range).tolist()
        if len(members := np.flatnonzero(of_range == number))
    ]


def _ranges_named(trace: Trace, pattern: re.Pattern[str]) -> I64:
    """The slices of the host whose name is like ``pattern``, by start."""
    items = named_on(trace, HOST, lambda name: pattern.fullmatch(name) is not None)
    return items[np.argsort(trace.slices.start[items], kind="stable")]


def _kernel_keys(side: KernelSide, item: I64) -> tuple[Keys, ...]:
    """What the kernels ``item`` are called, by each of the keys of the recorder.

    An eager kernel and a compiled one of the same operator have other names: without kernel_details.csv the type is the
    last word of ``graph_MatMulCommon_MatMulV2``.
    """
    table = side.kernels.of_slices(item)
    shapes = Coded([_without_tokens(text) for text in table.shapes.values], table.shapes.code)
    types = [table.type.at(k) for k in range(len(item))]
    columns: dict[str, list[str | None]] = {
        "name": [side.trace.name_of(each) for each in item.tolist()],
        "type": types,
        "dtypes": [table.dtypes.at(k) for k in range(len(item))],
        "shapes": [shapes.at(k) for k in range(len(item))],
        "operator": [kind and kind.rpartition("_")[2] for kind in types],
    }
    keys = recorder_of(side.trace).kernel_keys
    return tuple([*zip(*(columns[name] for name in names), strict=True)] for names in keys)


def _without_tokens(shapes: str) -> str:
    """``shapes`` with the first side of the first tensor, the tokens of the batch, left open wherever it occurs.

    ``32,2880;2880,5120`` is ``*,2880;2880,5120``: a graph pads the batch to a captured size.
    """
    tokens = shapes.split(";")[0].split(",")[0]
    return ";".join(
        ",".join("*" if side == tokens else side for side in tensor.split(",")) for tensor in shapes.split(";")
    )


def _step_positions(start: I64, launch: I64, keys: Keys, starts: I64) -> Iterator[I64]:
    """The positions of the kernels of each step: between ``starts``, else from each launch that begins like the first.

    ``launch`` ascends.
    """
    if not len(launch):
        return
    if len(starts) > 1:
        step = np.searchsorted(starts, start, "right")
    else:
        begins = np.flatnonzero(np.diff(launch, prepend=launch[0] - 1))
        like = [at for at in begins.tolist() if keys[at : at + SOME] == keys[:SOME]]
        step = np.searchsorted(np.array(like), np.arange(len(launch)), "right")
    yield from (np.flatnonzero(step == number) for number in np.unique(step).tolist())


# --- one with the other


class _Labels(Struct, frozen=True):
    """What the launches ``launch``, ascending, are labelled; ``codes`` (labels, n).

    The rows are operation, shapes, line, class of the innermost module, then the path of modules down to each depth.
    """

    launch: I64
    codes: I64
    kinds: list[str]
    paths: list[str]

    @classmethod
    def of(cls, launch: I64, came: Origins) -> _Labels:
        """The labels of ``launch`` that ``came`` from somewhere."""
        parts = [path.split("/") for path in came.module.values]
        kinds = Coded.of(_NUMBER.sub("", part[-1]) for part in parts)
        deepest = max(map(len, parts), default=0)
        paths = Coded.of(
            "/".join(part[:depth]) if depth <= len(part) else None for depth in range(1, deepest + 1) for part in parts
        )
        levels = np.append(np.reshape(paths.code, (deepest, len(parts))), np.full((deepest, 1), -1), 1)
        rows = came.operation.code, came.shapes.code, came.line, np.append(kinds.code, -1)[came.module.code]
        return cls(launch, np.vstack([*rows, levels[:, came.module.code]]), kinds.values, paths.values)

    def at(self, launch: I64) -> I64:
        """The labels of some of the launches; (labels, n)."""
        return self.codes[:, np.searchsorted(self.launch, launch)]


_NUMBER = re.compile(r"_\d+$")


class _PlacedSequence(Struct, frozen=True):
    """A replayed sequence ``here`` placed in ``there``, of which ``covered`` kernels are taken."""

    here: KernelSequence
    there: KernelSequence
    found: SequencePlacement
    covered: int

    @property
    def fit(self) -> float:
        """The lesser share of both sides that is placed."""
        return min(float(self.found.placed.mean()), self.covered / len(self.there))


def _placed(here: KernelSequence, launched: Sequence[KernelSequence], labels: _Labels) -> _PlacedSequence:
    """``here`` in the one of ``launched`` that it fits best, by the finest names that fit."""
    best: _PlacedSequence | None = None
    for rung in range(min(len(here.keys), len(launched[0].keys))):
        bag = Counter(here.keys[rung])
        shared = [(bag & Counter(there.keys[rung])).total() / max(len(here), len(there)) for there in launched]
        for number in sorted(range(len(launched)), key=lambda k: -shared[k])[:_TRIED]:
            if best is None or shared[number] > best.fit:
                tried = _aligned(here, launched[number], rung, labels)
                best = tried if best is None or tried.fit > best.fit else best
        if best is not None and best.fit >= ACCEPTED:
            break
    assert best is not None
    return best


def _aligned(here: KernelSequence, there: KernelSequence, rung: int, labels: _Labels) -> _PlacedSequence:
    """``here`` in ``there``, each stream by itself: a stream keeps the order of its launches, several do not."""
    codes: dict[object, int] = {}
    wanted, given = (
        np.array([codes.setdefault(key, len(codes)) for key in side.keys[rung]], np.int64) for side in (here, there)
    )
    named = labels.at(there.launch)
    count = len(here)
    placed, choices = np.zeros(count, np.bool_), np.zeros(count, np.int64)
    at, common = np.full(count, -1, np.int64), np.full((len(named), count), -1, np.int64)
    for stream in np.unique(here.stream).tolist():
        members = np.flatnonzero(here.stream == stream)
        found = placement(wanted[members], given, named)
        placed[members], at[members], choices[members] = found.placed, found.at, found.choices
        common[:, members] = found.common
    taken = np.bincount(at[at >= 0], minlength=len(there))
    at[(at >= 0) & (taken[at] > 1)] = -1
    unsure = (at < 0) & (choices == 1)  # two kernels for one place: which of them has it is not known
    common[:, ~placed | unsure] = -1
    return _PlacedSequence(
        here, there, SequencePlacement(placed, at, choices, common), min(int(placed.sum()), len(there))
    )


def _merged_parts(
    here: KernelSide, there: KernelSide, parts: Sequence[_PlacedSequence], labels: _Labels, came: Origins
) -> Borrowed:
    item = np.concatenate([part.here.item for part in parts])
    order = np.argsort(item, kind="stable")
    fits = np.repeat([part.fit >= ACCEPTED for part in parts], [len(part.here) for part in parts])[order]
    placed, at, choices = (
        np.concatenate([getattr(part.found, name) for part in parts])[order] for name in ("placed", "at", "choices")
    )
    common = np.concatenate([part.found.common for part in parts], axis=1)[:, order]
    # What does not fit well enough keeps its place, and claims nothing of modules and shapes.
    common[1:, ~fits] = -1
    common[0, ~fits & (at < 0)] = -1
    # The innermost module that is known: levels go from the whole model to its parts.
    module = np.full(len(item), -1, np.int64)
    for level in common[4:]:
        module = np.where(level >= 0, level, module)
    missing = item[order][~placed][:NAMED].tolist()
    return Borrowed(
        there.trace.path,
        tuple(dict.fromkeys(part.there.name for part in parts if part.there.name)),
        item[order],
        placed,
        at >= 0,
        fits,
        choices,
        Coded(came.operation.values, common[0]),
        Coded(came.shapes.values, common[1]),
        Coded(labels.paths, module),
        Coded(labels.kinds, common[3]),
        common[2],
        came.lines,
        sum(part.covered for part in parts) / sum(len(part.there) for part in parts),
        tuple(here.trace.name_of(each) for each in missing),
    )


_OPERATION, _FRAME = "cpu_op", "python_function"


class Origins(Struct, frozen=True):
    """Where each of some launches comes from; (n,) each, -1 where it is not known.

    ``module`` is the path of names, ``Model_0/Layer_3/Linear_1``; ``line`` indexes ``lines``.
    """

    operation: Coded
    shapes: Coded
    module: Coded
    line: I64
    lines: list[CodeLine]

    @property
    def is_known(self) -> bool:
        """Whether anything is known of any launch."""
        return self.operation.is_known or self.module.is_known or bool((self.line >= 0).any())


def origins(trace: Trace, launches: I64, shapes_of: ShapesOf) -> Origins:
    """Where the slices ``launches`` come from: operations that launch kernels, or calls of the runtime."""
    called = _of_category(trace, _OPERATION)
    operation, part = _slices_around(trace, launches, called), recorder_of(trace).outermost
    within = names_like(trace.names, lambda name: part in name)[trace.slices.name]
    outer = _slices_around(trace, launches, called & within)
    operation = np.where(outer >= 0, outer, operation)  # ``aclnnAddmm`` launches for ``aten::addmm``
    names = [trace.name_of(item) if item >= 0 else None for item in operation.tolist()]
    named = np.array([name.startswith(MODULE) for name in trace.names] + [False])[trace.slices.name]
    lines: dict[CodeLine, int] = {}
    line = [-1 if code is None else lines.setdefault(code, len(lines)) for code in _code_lines(trace, launches)]
    return Origins(
        Coded.of(names),
        Coded.of(_shape_texts(operation, shapes_of)),
        Coded.of(
            "/".join(reversed(chain)).replace(MODULE, "") or None for chain in _names_around(trace, launches, named)
        ),
        np.array(line, np.int64),
        list(lines),
    )


def _of_category(trace: Trace, name: str) -> npt.NDArray[np.bool_]:
    if name not in trace.categories:
        return np.zeros(len(trace.slices), np.bool_)
    return np.asarray(trace.slices.category == trace.categories.index(name))


def _slices_around(trace: Trace, items: I64, chosen: npt.NDArray[np.bool_]) -> I64:
    """Each of ``items`` that is ``chosen``, else the innermost chosen slice around it; -1 if there is none; (n,)."""
    slices = trace.slices
    found = Around(trace, chosen).find(slices.lane[items], slices.start[items], slices.end[items])
    return np.where(chosen[items], items, found)


def _shape_texts(operation: I64, shapes_of: ShapesOf) -> Iterator[str | None]:
    """Kineto has lists of shapes, torch_npu a text."""
    known = np.flatnonzero(operation >= 0)
    values = dict(zip(known.tolist(), shapes_of(operation[known]), strict=True))
    for shapes in map(values.get, range(len(operation))):
        if isinstance(shapes, list):
            shapes = ";".join(",".join(map(str, shape)) if isinstance(shape, list) else "" for shape in shapes)
        yield shapes if isinstance(shapes, str) and shapes else None


def _code_lines(trace: Trace, launches: I64) -> Iterator[CodeLine | None]:
    if recorder_of(trace).has_frames:  # its stacks are of user frames and end where a recursion is too deep
        yield from map(model_line, _names_around(trace, launches, _of_category(trace, _FRAME)))
        return
    stack = stack_of(trace, launches)
    known: dict[int, CodeLine | None] = {-1: None}
    for code in stack.tolist():
        if code not in known:
            known[code] = model_line(trace.stacks[code].split(BETWEEN[0]))
        yield known[code]


def _names_around(trace: Trace, items: I64, chosen: npt.NDArray[np.bool_]) -> Iterator[tuple[str, ...]]:
    """The names of the ``chosen`` slices around each of ``items``, the innermost first."""
    slices, around = trace.slices, Around(trace, chosen)
    parents = around.parents()
    inner = around.find(slices.lane[items], slices.start[items], slices.end[items])
    known: dict[int, tuple[str, ...]] = {-1: ()}
    for at in np.where(inner >= 0, np.searchsorted(around.items, inner), -1).tolist():
        open_ = []
        while at not in known:
            open_.append(at)
            at = int(parents[at])
        for at in reversed(open_):
            known[at] = (trace.name_of(int(around.items[at])), *known[int(parents[at])])
        yield known[at]
