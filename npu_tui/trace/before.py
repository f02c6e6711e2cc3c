"""The one before each in a sequence of several kinds, such as the task before on a stream."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def one_before(kind: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
    """The position of the one before each that has the same ``kind``, -1 without one; (n,)."""
    if len(kind) and int(kind.max()) - (least := int(kind.min())) < 1 << 16:
        kind = (kind - least).astype(np.uint16)  # short numbers are sorted digit by digit
    order = np.argsort(kind, kind="stable")
    found = np.full(len(kind), -1, np.int64)
    same = np.flatnonzero(kind[order[1:]] == kind[order[:-1]])
    found[order[same + 1]] = order[same]
    return found
