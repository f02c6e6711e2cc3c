"""Where the experts of a layer are, what every device computes for them, and what moving some of them would change."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from npu_tui.trace.arrays import F64, I64


class Swap(Struct, frozen=True):
    """``expert`` of the device at ``place`` and ``other_expert`` of that at ``other`` change places: then the device
    with most tokens has ``most``.
    """

    place: int
    expert: int
    other: int
    other_expert: int
    most: float


def best_swap(tokens: F64, experts: I64) -> Swap | None:
    """The swap between the device with most tokens and another that leaves the least on the device with most then.

    ``tokens`` and ``experts`` are those of the slots, (devices, slots), not-a-number for an empty one. No device gets
    a second copy of an expert. None where nothing gets better.
    """
    load = np.nansum(tokens, axis=1)
    hot = int(np.argmax(load))
    less = tokens[hot][:, None, None] - tokens[None]  # (slots of the hot one, devices, slots)
    # Apart from the two, the device with most tokens is one of the three with most.
    order = np.argsort(-load, kind="stable")
    rest = np.array([max((load[row] for row in order[:3] if row not in (hot, other)), default=0.0)
                     for other in range(len(load))])  # fmt: skip
    after = np.maximum(np.maximum(load[hot] - less, load[None, :, None] + less), rest[None, :, None])
    twice = (experts[None] == experts[hot][:, None, None]).any(axis=2)[:, :, None]
    twice = twice | np.isin(experts, experts[hot])[None]
    after[:, hot] = np.nan
    after = np.where(twice, np.nan, after)
    if not np.isfinite(after).any() or np.nanmin(after) >= load[hot]:
        return None
    slot, other, other_slot = np.unravel_index(int(np.nanargmin(after)), after.shape)
    found = experts[hot, slot], other, experts[other, other_slot]
    return Swap(hot, int(found[0]), int(found[1]), int(found[2]), float(after[slot, other, other_slot]))


class ExpertCopies(Struct, frozen=True):
    """How a placement spreads ``experts`` over devices.

    ``redundant`` slots hold a further copy, in every layer (None: as many differ). ``most`` is how many layers have so
    many copies of one expert at most, by copies; ``twice`` counts devices of layers that hold an expert twice, and
    ``missing`` the experts of some layer that another layer does not place.
    """

    experts: int
    redundant: int | None
    most: dict[int, int]
    twice: int
    missing: int


def copies_in(slots: I64) -> ExpertCopies:
    """Copies of the experts in ``slots`` (layers, devices, slots), -1 for an empty one."""
    every = np.unique(slots[slots >= 0])
    most: dict[int, int] = {}
    redundant, twice, missing = set(), 0, 0
    for of_layer in slots:
        there, counts = np.unique(of_layer[of_layer >= 0], return_counts=True)
        most[int(counts.max())] = most.get(int(counts.max()), 0) + 1
        redundant.add(int(counts.sum()) - len(there))
        missing += len(every) - len(there)
        ordered = np.sort(of_layer, axis=1)
        twice += int(((np.diff(ordered, axis=1) == 0) & (ordered[:, 1:] >= 0)).any(axis=1).sum())
    return ExpertCopies(len(every), redundant.pop() if len(redundant) == 1 else None, most, twice, missing)
