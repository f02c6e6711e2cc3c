"""The rhythm of a run without steps: what repeats, such as the tokens that a server decodes."""

from __future__ import annotations

import re
from typing import Literal

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.trace.model import Trace

I64 = npt.NDArray[np.int64]

_FEWEST = 4
_FEWEST_KERNELS = 2
_EVEN = 0.02
_MOSTLY = 0.8
_COVERED = 0.6
_BACKWARD = re.compile(r"Grad|Backward|Optimizer|ApplyAdam|ApplyMomentum", re.IGNORECASE)
_READS = frozenset({"aten::item", "aten::_local_scalar_dense"})

Unit = Literal["token", "iteration"]


class Rhythm(Struct, frozen=True):
    """``starts`` of what repeats, ns on the device's clock; (count,). A ``token`` where nothing is trained."""

    starts: I64
    unit: Unit

    @property
    def count(self) -> int:
        """How often it repeats."""
        return len(self.starts)


def rhythm(trace: Trace, kernels: I64, launched: I64) -> Rhythm | None:
    """What repeats in the compute slices ``kernels`` (by start), launched at ``launched`` ns (-1: unknown).

    A value that the host reads back splits the run if about the same number of kernels lies between two of them; else
    the rarest kernels that come back at even distances do.
    """
    if len(kernels) < _FEWEST:
        return None
    slices = trace.slices
    at = _by_reads(trace, launched)
    if at is None:
        at = _by_names(slices.name[kernels].astype(np.int64))
    if at is None:
        return None
    used = np.unique(slices.name[kernels]).tolist()
    trained = any(_BACKWARD.search(trace.names[code]) for code in used if code < len(trace.names))
    trained = trained or any(name.startswith("autograd::engine") for name in trace.names)
    return Rhythm(slices.start[kernels[at]], "iteration" if trained else "token")


def _by_reads(trace: Trace, launched: I64) -> I64 | None:
    """Which kernels are the first after each value that is read back."""
    slices = trace.slices
    named = np.array([name in _READS for name in trace.names] + [False])[slices.name]
    reads = np.sort(slices.end[named])
    known = np.flatnonzero(launched >= 0)
    if len(reads) < _FEWEST or not len(known):
        return None
    order = known[np.argsort(launched[known], kind="stable")]
    first = np.concatenate(([0], np.searchsorted(launched[order], reads, "left")))
    first = np.unique(first[first < len(order)])
    if len(first) < _FEWEST or not _is_even(np.diff(np.append(first, len(order)))):
        return None
    return np.sort(order[first])


def _by_names(names: I64) -> I64 | None:
    """Where the kernels come that are rarest of those at even distances, the one that comes first."""
    counts = np.bincount(names)
    best: I64 | None = None
    for code in np.flatnonzero(counts >= _FEWEST).tolist():
        if best is not None and counts[code] > len(best):
            continue
        at = np.flatnonzero(names == code)
        gaps = np.diff(at)
        if not _is_even(gaps) or float(np.median(gaps)) * len(at) < _COVERED * len(names):
            continue
        if best is None or len(at) < len(best) or at[0] < best[0]:
            best = at
    return best


def _is_even(gaps: I64) -> bool:
    """Whether most of ``gaps`` are about the same."""
    usual = float(np.median(gaps))
    return usual >= _FEWEST_KERNELS and float(np.mean(np.abs(gaps - usual) <= max(1.0, _EVEN * usual))) >= _MOSTLY
