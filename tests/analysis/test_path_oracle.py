"""The critical path of GPU profiles beside that of HTA 0.5.0 (``critical_path_analysis`` of the one ProfilerStep).

HTA's breakdown in us: bert-small cpu 1,999, compute 40; Falconsai cpu 4,584, compute 0; Qwen cpu 1,675, compute 29,151,
kernel to kernel 2,781. It leaves out the last ``cudaDeviceSynchronize`` and what precedes the first operation.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from measured import profile_at

from npu_tui.analysis.path import COMPUTE, DEVICE_GAP, HOST, critical_path
from npu_tui.analysis.path import Path as CriticalPath
from tests.conftest import WITHOUT_TRACES

TRACES = Path(os.environ.get("NPU_TUI_TRACES", "")) / "gpu"
pytestmark = pytest.mark.skipif(not os.environ.get("NPU_TUI_TRACES"), reason=WITHOUT_TRACES)


def _path(name: str) -> CriticalPath:
    (replay,) = (replay for _, replay in profile_at(next(TRACES.glob(f"{name}*.json.gz"))).replays)
    assert replay is not None
    return critical_path(replay)


def _time(path: CriticalPath, *kinds: int) -> float:
    return float((path.end - path.start)[np.isin(path.kind, kinds)].sum()) / 1000


@pytest.mark.parametrize("name", ["gaunernst", "Falconsai"])
def test_a_host_that_is_late_holds_all_of_it(name: str) -> None:
    path = _path(name)
    assert _time(path, HOST) > 0.97 * path.length / 1000


def test_kernels_hold_what_hta_says() -> None:
    path = _path("Qwen")
    assert _time(path, COMPUTE) == pytest.approx(29_151, rel=0.05)
    # HTA's edges from kernel to kernel are the gaps on the stream and the copies of a few us.
    assert _time(path, COMPUTE, DEVICE_GAP) == pytest.approx(29_151 + 2_781, rel=0.05)
