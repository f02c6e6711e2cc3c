"""What chips reach at most in matrix products of 16-bit floating point."""

from __future__ import annotations

import re

from npu_tui.analysis.work.joined.kernels import Coded

_PEAKS = {
    "Ascend910_9362": 353.8944, "Ascend910_9392": 353.8944, "Ascend910B1": 373.88, "Ascend910B2": 353.8944,
    "Ascend910B3": 294.912, "Ascend910B4": 245.76, "Ascend950PR": 432.0, "Ascend950DT": 486.0, "Ascend910A": 256.0,
}  # fmt: skip
"""TFLOPS of the cube units in FLOAT16 and BFLOAT16 by the name of the chip.

910B, 910_93xx and 950: table of peaks in Huawei's torchtitan plugin for NPUs, for its MFU; 910B2 to B4 are cores x 4096
multiplications and additions a cycle x clock. 910A: Huawei, Hot Chips 31 (2019), 256 TFLOPS.
"""

_HALF = ("FLOAT16", "HALF", "BF16", "BFLOAT16")


def peak_of(chip: str | None) -> float:
    """The peak of ``chip`` in TFLOPS, 0 where it is unknown: a family of chips such as ``Ascend910B`` has no peak."""
    wanted = (chip or "").strip().lower()
    fitting = [name for name in _PEAKS if re.fullmatch(f"{name.lower()}([-_].*)?", wanted)]
    return _PEAKS[max(fitting, key=len)] if fitting else 0.0


def is_half(dtypes: Coded, row: int) -> bool:
    """Whether the first input of a kernel is in 16-bit floating point."""
    first = (dtypes.at(row) or "").split(";")[0].strip().upper().removeprefix("DT_")
    return first in _HALF
