"""How many tokens experts got, and where they are placed: files that engines of experts (MoE) write.

``(prefill|decode)_<rank>.csv``: a row a MoE layer, a column a local expert, tokens; ``model_gen_config.json`` beside
them counts the layers. ``*_global_deployment.json`` and the expert map of vllm-ascend: ``{layer_list: [{layer_id,
device_list: [{device_id, device_expert: [...]}]}]}``; an expert that is there twice has a copy. Dumps of tensors have
the group lists of products, how many rows each local expert computed:
``step_<n>/<role>/rank<r>/dump_tensor_data/NPU.npu_grouped_matmul.<k>.forward.kwargs.group_list.pt``, a zip of torch, of
which the numbers are read and nothing is run. They are no trace, and count only beside no profile.

Sources: MindStudio Insight (ExpertHotspotManager), vllm-ascend (eplb), rl-insight, msprobe, torch ``serialization.py``.
"""

from __future__ import annotations

import io
import pickletools
import re
import zipfile
import zlib
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

from npu_tui.load.documents import parsed
from npu_tui.load.format import Survey
from npu_tui.trace.arrays import F64, I64
from npu_tui.trace.message import Message, message
from npu_tui.trace.side_file import read_regular

DUMP = re.compile(r"(prefill|decode)_(\d{1,6})\.csv")
_PLACEMENT = re.compile(r".*global_deployment\.json|expert_?map.*\.json", re.IGNORECASE)
_MOST_FILES = 20_000  # a hostile folder may hold any number

GROUP_LIST = re.compile(r"NPU\.npu_grouped_matmul\.(\d{1,9})\.forward\.kwargs\.group_list\.pt")
TENSORS = "dump_tensor_data"
_ABOVE = ("step_*/*/rank*[0-9]/", "rank*[0-9]/", "")
_STEP = "*/rank*[0-9]/"
"""Where dumps lie below a folder of several steps, of one role or rank, and below one step: no more is searched."""


def expert_files_in(path: Path, survey: Survey | None = None) -> list[Path]:
    """The files at ``path``: itself, or those in the folder and in folders below it whose names have ``expert``."""
    survey = survey or Survey()
    try:
        if path.is_file():
            has_layers = path.suffix == ".json" and b'"layer_list"' in survey.head(path, 1024)  # whatever its name
            return [path] if _is_one(path) or has_layers else []
        folders = [path, *survey.folders(path, "*expert*")]
        # A folder of such a name is reported as one that cannot be read.
        every = (folder / name for folder in folders for name in survey.names(folder))
        found = [file for file in every if _is_one(file)][:_MOST_FILES]
        return found + _group_lists_in(path, survey)
    except OSError:
        return []


def _is_one(file: Path) -> bool:
    return DUMP.fullmatch(file.name) is not None or _PLACEMENT.fullmatch(file.name) is not None


def _group_lists_in(path: Path, survey: Survey) -> list[Path]:
    """The group lists of forward products in the dump at ``path``, or in its steps, roles or ranks."""
    for above in (_STEP,) if path.name.startswith("step_") else _ABOVE:
        found = [file for file in survey.glob(path, f"{above}{TENSORS}/*") if GROUP_LIST.fullmatch(file.name)]
        if found:
            return found[:_MOST_FILES]
    return []


_CONFIG = "model_gen_config.json"
_LARGEST = 64 << 20  # bytes of a file that is read at once
_MOST_LAYERS, _MOST_EXPERTS, _MOST_SLOTS = 4_096, 1 << 16, 1 << 22  # what no model has is damage
_MOST_TOKENS = 1e15  # no run counts more: it is damage
NONE = -1


class ExpertDump(Struct, frozen=True, eq=False):
    """Tokens of the experts of one ``rank`` in one ``phase``, (layers, local experts); not-a-number is unknown."""

    path: Path
    phase: str
    rank: int
    tokens: F64


class ExpertSlots(Struct, frozen=True, eq=False):
    """Which expert every slot of every device holds, (layers, devices, slots), ``NONE`` for none.

    ``layers`` and ``devices`` are their numbers in the file, ascending.
    """

    path: Path
    layers: tuple[int, ...]
    devices: tuple[int, ...]
    slots: I64


class ExpertFiles(Struct, frozen=True, eq=False):
    """All that was read; ``problems`` are what could not be, a line a file."""

    dumps: list[ExpertDump]
    placements: list[ExpertSlots]
    problems: list[Message]


def read_expert_files(paths: list[Path]) -> ExpertFiles:
    """What the files ``paths`` hold; one that cannot be read is a problem, and the others are read."""
    found = ExpertFiles([], [], [])
    counts: dict[Path, int | None] = {}
    found.dumps.extend(_products([path for path in paths if path.suffix == ".pt"], found.problems))
    for path in (path for path in paths if path.suffix != ".pt"):
        name = DUMP.fullmatch(path.name)
        try:
            content = read_regular(path, _LARGEST)
            if name is None:
                found.placements.append(_placement(path, content, found.problems))
                continue
            if path.parent not in counts:
                counts[path.parent] = _layer_count(path.parent, found.problems)
            tokens = _dump_table(path, content, counts[path.parent], found.problems)
            found.dumps.append(ExpertDump(path, name[1], int(name[2]), tokens))
        except OSError as error:
            found.problems.append(_problem(path, "unreadable", why=error.strerror or str(error)))
        except (ValueError, RecursionError) as error:
            found.problems.append(_problem(path, "malformed", why=str(error)[:200]))
    _drop_odd(found)
    return found


def _products(paths: list[Path], problems: list[Message]) -> Iterator[ExpertDump]:
    """The dumps of the ranks whose group lists are ``paths``."""
    lists: dict[tuple[str, int], dict[int, Path]] = {}
    for path in paths:
        if (place := group_list_place(path)) is not None:
            lists.setdefault(place[:2], {})[place[2]] = path
    for (phase, rank), of_rank in sorted(lists.items()):
        try:
            tokens = expert_rows([read_group_list(of_rank[number]) for number in sorted(of_rank)])
            yield ExpertDump(next(iter(of_rank.values())).parent, phase, rank, tokens.astype(np.float64))
        except (OSError, ValueError) as error:
            problems.append(_problem(next(iter(of_rank.values())).parent, "malformed", why=str(error)[:200]))


def _problem(path: Path, code: str, **args: Any) -> Message:
    return message(f"expert_files.{code}", path=str(path), **args)


def _layer_count(folder: Path, problems: list[Message]) -> int | None:
    """``num_moe_layers`` of the settings beside the dumps."""
    path = folder / _CONFIG
    try:
        value = parsed(read_regular(path, _LARGEST)).get("num_moe_layers")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, AttributeError):
        problems.append(_problem(path, "malformed", why="no num_moe_layers"))
        return None
    return value if type(value) is int and 0 < value <= _MOST_LAYERS else None


def _dump_table(path: Path, content: bytes, count: int | None, problems: list[Message]) -> F64:
    """The table of a dump; a cell that is no number of tokens, and a row of another length, is unknown.

    Raises ``ValueError`` where nothing is there.
    """
    every, lines = 0, deque[str](maxlen=count or _MOST_LAYERS)  # of several collections the last counts, as in Insight
    for line in io.TextIOWrapper(io.BytesIO(content), "utf-8-sig", "replace"):
        if line.count(",") >= _MOST_EXPERTS:
            raise ValueError(f"{line.count(',') + 1:,} experts")
        if line.strip(", \t\n\0") and (every or not np.isnan(_cells_of_line(line)).all()):  # else it is a heading
            lines.append(line)
            every += 1
    if not every:
        raise ValueError("no row of tokens")
    rows = [_cells_of_line(line) for line in lines]
    width = Counter(map(len, rows)).most_common(1)[0][0]
    if count is not None and every != count:
        code = "more_rows" if every > count else "fewer_rows"
        problems.append(_problem(path, code, rows=every, layers=count))
    if (count is None and every > _MOST_LAYERS) or len(rows) * width > _MOST_SLOTS:
        raise ValueError(f"{every:,} rows of {width:,} experts")
    table = np.array([row if len(row) == width else np.full(width, np.nan) for row in rows])
    if unknown := int(np.isnan(table).sum()):
        problems.append(_problem(path, "cells", count=unknown))
    return table


def _cells_of_line(line: str) -> F64:
    return np.array([_token_count(cell) for cell in line.split(",")])


def _token_count(cell: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        return np.nan
    return value if 0 <= value <= _MOST_TOKENS else np.nan


def _placement(path: Path, content: bytes, problems: list[Message]) -> ExpertSlots:
    """The placement in ``content``; malformed layers and devices are left out. Raises ``ValueError``."""
    document = parsed(content)
    listed = document.get("layer_list") if isinstance(document, dict) else None
    if not isinstance(listed, list):
        raise ValueError("no layer_list")
    left_out: list[str] = []
    layers = dict(_lists_by_number(listed, "layer_id", "device_list", left_out, len(listed)))
    slots: dict[int, dict[int, list[int]]] = {}
    for number, of_layer in layers.items():
        for device, experts in _lists_by_number(of_layer, "device_id", "device_expert", left_out, _MOST_SLOTS):
            if all(type(expert) is int and 0 <= expert < _MOST_SLOTS for expert in experts):
                slots.setdefault(number, {})[device] = experts
            else:
                left_out.append(f"layer {number} device {device}")
    devices = tuple(sorted({device for held in slots.values() for device in held}))
    width = max((len(experts) for held in slots.values() for experts in held.values()), default=0)
    size = len(slots) * len(devices) * width
    # Three numbers of a small file can ask for any table.
    if not size or size > _MOST_SLOTS or len(slots) > _MOST_LAYERS:
        raise ValueError(f"{len(slots):,} layers of {len(devices):,} devices with {width:,} experts")
    table = np.full((len(slots), len(devices), width), NONE, np.int64)
    place = {device: at for at, device in enumerate(devices)}
    for at, number in enumerate(sorted(slots)):
        for device, experts in slots[number].items():
            table[at, place[device], : len(experts)] = experts
    if left_out:
        problems.append(_problem(path, "left_out", count=len(left_out), first=left_out[0]))
    return ExpertSlots(path, tuple(sorted(slots)), devices, table)


def _lists_by_number(
    rows: list[Any], id_: str, items: str, left_out: list[str], most: int
) -> Iterator[tuple[int, list[Any]]]:
    """The number and the list of every object of ``rows``, the first of each number."""
    seen: set[int] = set()
    for row in rows[:most]:
        number, of_row = (row.get(id_), row.get(items)) if isinstance(row, dict) else (None, None)
        if type(number) is int and 0 <= number < _MOST_SLOTS and number not in seen and isinstance(of_row, list):
            seen.add(number)
            yield number, of_row
        else:
            left_out.append(f"{id_} {number!s:.20}")


def _drop_odd(found: ExpertFiles) -> None:
    """Leave out dumps of another shape than most of their phase, and a second one of a rank."""
    for phase in {dump.phase for dump in found.dumps}:
        of_phase = [dump for dump in found.dumps if dump.phase == phase]
        shape = Counter(dump.tokens.shape for dump in of_phase).most_common(1)[0][0]
        seen: set[int] = set()
        for dump in of_phase:
            size = {"layers": dump.tokens.shape[0], "experts": dump.tokens.shape[1]}
            if dump.tokens.shape != shape:
                most = {"most_layers": shape[0], "most_experts": shape[1]}
                found.problems.append(_problem(dump.path, "odd", **size, **most))
            elif dump.rank in seen:
                found.problems.append(_problem(dump.path, "twice_there", rank=dump.rank))
            else:
                seen.add(dump.rank)
                continue
            found.dumps.remove(dump)


_TYPES = {"LongStorage": "<i8", "IntStorage": "<i4"}
_LARGEST_LIST = 8 << 20
_MEMBER, _MOST_MEMBERS = b"PK\x01\x02", 64
"""How the entry of a member begins in the list of all, and how many are read: torch writes about five."""


def group_list_place(path: Path) -> tuple[str, int, int] | None:
    """The step and role of a group list as one text, the rank, and the number of the product; None for another file."""
    name, rank = GROUP_LIST.fullmatch(path.name), re.fullmatch(r"rank_?(\d{1,6})", path.parent.parent.name)
    if name is None or path.parent.name != TENSORS or rank is None:
        return None
    return f"{path.parents[3].name} {path.parents[2].name}".strip(), int(rank[1]), int(name[1])


def read_group_list(path: Path) -> I64:
    """The numbers of the group list at ``path``. Raises ``OSError``, and ``ValueError`` for another file."""
    try:
        data = read_regular(path, _LARGEST_LIST)
        if data.count(_MEMBER) > _MOST_MEMBERS:
            raise ValueError("too many members for a group list")
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = {name.partition("/")[2]: archive.getinfo(name) for name in archive.namelist()}
            kind, offset, count = _tensor(_stored_member(archive, members["data.pkl"]))
            values = np.frombuffer(_stored_member(archive, members["data/0"]), kind)
    except (zipfile.BadZipFile, zlib.error, KeyError, NotImplementedError, RuntimeError, EOFError) as error:
        raise ValueError(f"no tensor of torch: {error}") from error
    if offset + count > len(values) or (values < 0).any():
        raise ValueError("fewer numbers than it says, or negative ones")
    return values[offset : offset + count].astype(np.int64)


def _stored_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """A member, which torch stores as it is. Raises ``ValueError`` where it is packed: it may mean any size."""
    if member.compress_type != zipfile.ZIP_STORED:
        raise ValueError("a packed member, which torch does not write")
    return archive.read(member)


def _tensor(content: bytes) -> tuple[str, int, int]:
    """Type, offset and length of the one-dimensional tensor that a pickle describes; it is read, not run."""
    kind, numbers, stored = "", list[int](), False
    for opcode, value, _ in pickletools.genops(content):
        if opcode.name in ("GLOBAL", "SHORT_BINUNICODE", "BINUNICODE") and isinstance(value, str):
            kind = next((_TYPES[word] for word in value.split() if word in _TYPES), kind)
        stored |= opcode.name == "BINPERSID"
        if stored and isinstance(value, int) and opcode.name.startswith(("BININT", "LONG")):
            numbers.append(value)
        if opcode.name == "TUPLE1" and len(numbers) == 2 and kind and min(numbers) >= 0:
            return kind, numbers[0], numbers[1]
    raise ValueError("no tensor of whole numbers with one dimension")


def expert_rows(lists: Iterable[I64]) -> I64:
    """The rows of every expert and layer by the ``lists`` of one rank in order, (layers, experts).

    Lists that never fall are sums up to each expert. Products of one layer have the same list. Raises ``ValueError``
    where lists have several lengths.
    """
    table = np.stack(list(lists))
    if table.shape[1] > 1 and (np.diff(table, axis=1) >= 0).all():
        table = np.diff(table, axis=1, prepend=0)
    layers = [row for row, _ in groupby(map(tuple, table.tolist()))]
    return np.array(layers, np.int64)
