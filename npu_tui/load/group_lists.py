"""Group lists of the products of experts, as a dump of tensors has them: how many rows each local expert computed.

``step_<n>/<role>/rank<r>/dump_tensor_data/NPU.npu_grouped_matmul.<k>.forward.kwargs.group_list.pt``: a zip of torch, of
which the numbers are read and nothing is run. Source: rl-insight, msprobe; torch ``serialization.py``.
"""

from __future__ import annotations

import io
import pickletools
import re
import zipfile
import zlib
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

import numpy as np

from npu_tui.load.formats.experts import GROUP_LIST, TENSORS
from npu_tui.trace.arrays import I64
from npu_tui.trace.side_file import read_regular

_TYPES = {"LongStorage": "<i8", "IntStorage": "<i4"}
_LARGEST = 8 << 20
_MEMBER, _MOST_MEMBERS = b"PK\x01\x02", 64
"""How the entry of a member begins in the list of all, and how many are read: torch writes about five."""


def place_of(path: Path) -> tuple[str, int, int] | None:
    """The step and role of a group list as one text, the rank, and the number of the product; None for another file."""
    name, rank = GROUP_LIST.fullmatch(path.name), re.fullmatch(r"rank_?(\d{1,6})", path.parent.parent.name)
    if name is None or path.parent.name != TENSORS or rank is None:
        return None
    return f"{path.parents[3].name} {path.parents[2].name}".strip(), int(rank[1]), int(name[1])


def read_group_list(path: Path) -> I64:
    """The numbers of the group list at ``path``. Raises ``OSError``, and ``ValueError`` where it is none."""
    try:
        data = read_regular(path, _LARGEST)
        if data.count(_MEMBER) > _MOST_MEMBERS:
            raise ValueError("too many members for a group list")
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = {name.partition("/")[2]: archive.getinfo(name) for name in archive.namelist()}
            kind, offset, count = _tensor(_read(archive, members["data.pkl"]))
            values = np.frombuffer(_read(archive, members["data/0"]), kind)
    except (zipfile.BadZipFile, zlib.error, KeyError, NotImplementedError, RuntimeError, EOFError) as error:
        raise ValueError(f"no tensor of torch: {error}") from error
    if offset + count > len(values) or (values < 0).any():
        raise ValueError("fewer numbers than it says, or negative ones")
    return values[offset : offset + count].astype(np.int64)


def _read(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
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


def tokens_of(lists: Iterable[I64]) -> I64:
    """The rows of every expert and layer by the ``lists`` of one rank in order, (layers, experts).

    Lists that never fall are sums up to each expert. Products of one layer have the same list. Raises ``ValueError``
    where lists have several lengths.
    """
    table = np.stack(list(lists))
    if table.shape[1] > 1 and (np.diff(table, axis=1) >= 0).all():
        table = np.diff(table, axis=1, prepend=0)
    layers = [row for row, _ in groupby(map(tuple, table.tolist()))]
    return np.array(layers, np.int64)
