"""The ranks below a folder, from the files beside their traces and, where wanted, from the traces themselves."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from npu_tui.ingest.companions.communication import communication_spans, matrix_rows
from npu_tui.ingest.companions.documents import Document
from npu_tui.ingest.companions.files import Companions
from npu_tui.ingest.errors import InputError
from npu_tui.ingest.source.find import Source
from npu_tui.job.model import Call, Layout, LinkUse, RankProfile, StepTime
from npu_tui.profile.beside import groups_in
from npu_tui.trace.message import message

_NAME = re.compile(r"(?:hcom_)?(?P<type>[A-Za-z]+?)_{1,3}(?P<hash>\d+)_(?P<ordinal>\d+)(?:_\d+)*")
_SIZES = ("tensor_model_parallel_size", "pipeline_model_parallel_size", "data_parallel_size", "world_size")
_STEP_COLUMNS = ("Step", "Computing", "Communication(Not Overlapped)", "Free", "Stage", "Overlapped")
_LOCAL = "LOCAL"


def call_name(name: str) -> tuple[str, str, int | None]:
    """Type, group suffix and ordinal in a name such as ``hcom_allReduce__586_0_1``."""
    match = _NAME.fullmatch(name)
    if match is None:
        return name.removeprefix("hcom_").partition("_")[0], "", None
    return match["type"], match["hash"], int(match["ordinal"])


def companion_rank(source: Source, companions: Companions, rank: int) -> RankProfile:
    """``rank`` as the files beside its trace tell it; what is missing there stays empty."""
    problems = []
    times = companions.document_state("communication.json")
    if times.state == "unreadable":
        problems.append(message("job.unreadable", rank=rank, file="communication.json"))
    boot, counter = _host(companions.profiler_info)
    metadata = companions.metadata
    groups = groups_in(metadata)
    return RankProfile(
        rank,
        source.opened,
        source.kind,
        boot,
        counter,
        level=companions.profiler_level,
        layout=_layout(metadata),
        groups=groups,
        calls=tuple(_calls(times)),
        steps=tuple(_steps(companions)),
        links=tuple(_links(companions.document_state("communication_matrix.json"), groups)),
        problems=tuple(problems),
    )


def _calls(document: Document) -> Iterable[Call]:
    for (step, _, name, group), start, elapsed in communication_spans(document):
        kind, suffix, ordinal = call_name(name)
        yield Call(group or suffix, kind, name, step, ordinal, start, start + elapsed)


def _host(info: dict[str, Any]) -> tuple[int | None, int | None]:
    """When the host was booted by its wall clock, and how far its cycle counter is ahead of its monotonic clock, ns."""
    end, start = info.get("end_info"), info.get("start_info")
    boot = counter = None
    if isinstance(end, dict):
        wall, monotonic = end.get("collectionTimeEnd"), end.get("MonotonicTimeEnd")
        if isinstance(wall, int) and isinstance(monotonic, int):
            boot = wall - monotonic
    if isinstance(start, dict):
        cycles, rate, monotonic = start.get("start_cnt"), start.get("freq"), start.get("start_monotonic")
        if isinstance(cycles, int) and isinstance(rate, int | float) and isinstance(monotonic, int) and rate > 0:
            counter = round(cycles * 1_000 / rate) - monotonic  # freq is in MHz
    return boot, counter


def _layout(metadata: Any) -> Layout | None:
    args = metadata.get("distributed_args") if isinstance(metadata, dict) else None
    if not isinstance(args, dict):
        return None
    sizes = [args.get(name) for name in _SIZES]
    if not all(type(size) is int and 0 < size < 1 << 31 for size in sizes):
        return None
    return Layout(*sizes)  # type: ignore[arg-type]


def _steps(companions: Companions) -> Iterable[StepTime]:
    """Steps of step_trace_time.csv; its times are in us."""
    for step, *cells in companions.rows("step_trace_time.csv", *_STEP_COLUMNS):
        try:
            computing, exposed, free = (round(float(cell or 0) * 1_000) for cell in cells[:3])
        except (ValueError, OverflowError):
            continue
        yield StepTime(step or "", computing, exposed, free, computing + exposed + free)


def _links(document: Document, groups: Mapping[str, tuple[int, ...]]) -> Iterable[LinkUse]:
    """Every operation between two chips by communication_matrix.json; sums over operations are left out."""
    sets = {ranks for ranks in groups.values() if len(ranks) > 1}
    ranks = next(iter(sets)) if len(sets) == 1 else ()
    for _, _, name, _, source, target, transport, size, _, speed, operation in matrix_rows(document):
        if transport == _LOCAL or source == target or name.endswith("-total") or not speed or not size:
            continue
        if max(source, target) < len(ranks):
            source, target = ranks[source], ranks[target]
        yield LinkUse(source, target, transport or "", call_name(operation or name)[0], size, speed)


def read_ranks(
    sources: Iterable[Source], of: Callable[[Source, int], RankProfile], numbered: Callable[[Source], int | None]
) -> tuple[list[RankProfile], list[tuple[Source, InputError]]]:
    """The ranks of ``sources`` by rank, and those that could not be read; one without a rank takes a free one."""
    found: dict[int, RankProfile] = {}
    broken = []
    for source in sources:
        rank = numbered(source)
        if rank is None or rank in found:
            rank = max(found, default=-1) + 1
        try:
            found[rank] = of(source, rank)
        except InputError as error:
            broken.append((source, error))
    return [found[rank] for rank in sorted(found)], broken
