"""Public traces of inference engines: events, kernels, replays of graphs and copies, as counted by other programs."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import numpy as np
import pytest
from measured import profile_at

from npu_tui.load.load import load
from npu_tui.profile.engine_tables import ENGINE_STEPS
from npu_tui.profile.profile import Profile
from npu_tui.trace.kineto import LAUNCH


def _folder() -> Path:
    folder = os.environ.get("NPU_TUI_TRACES")
    if not folder:
        pytest.skip(reason="NPU_TUI_TRACES is not set: it names the folder of the real profiles")
    return Path(folder) / "inference"


@pytest.mark.parametrize(
    ("file", "events", "kernels", "replayed", "copies", "replays"),
    [
        ("vllm_decode_full/graph_execution.json.gz", 1_993, 425, 421, 9, 1),
        ("vllm_prefilldecode_piecewise/graph_execution.json.gz", 19_289, 413, 361, 10, 25),
        ("sglang_decode/sglang_Qwen3-8B_decode.json.gz", 2_058, 555, 544, 3, 1),
    ],
)
def test_counts_and_times_of_a_step(file: str, events: int, kernels: int, replayed: int, copies: int, replays: int):
    path = _folder() / file
    profile = Profile(load(path))
    trace = profile.trace
    assert sum(trace.events.values()) == events
    assert len(profile.kernel_table) == kernels
    assert sum(int(device.copy.sum()) for device in profile.device_slices) == copies
    links = trace.bound_links_of(LAUNCH)
    graphs = [code for code, name in enumerate(trace.names) if "GraphLaunch" in name]
    of_graph = np.isin(trace.slices.name[trace.links.source_slice[links]], graphs)
    assert int(np.isin(trace.slices.name, graphs).sum()) == replays
    assert len(np.unique(trace.links.target_slice[links[of_graph]])) == replayed
    (overlap,) = profile.overlaps
    with (path.parent / "gpu_timeline.csv").open(encoding="utf-8") as rows:
        published = {row["type"]: float(row["time ms"]) * 1e6 for row in csv.DictReader(rows)}
    # Their times keep fractions of a nanosecond, ours are whole.
    assert overlap.computing == pytest.approx(published["computation_time"], abs=kernels)
    assert overlap.total == pytest.approx(published["total_time"], abs=2)


@pytest.mark.parametrize(
    ("file", "told", "host", "span", "kernels", "graph"),
    [
        ("vllm_decode_full/graph_execution.json.gz", ("decode", 32, 32, 0), 2408.598, 10743.182, (425, 421, 9), True),
        (
            "vllm_prefilldecode_piecewise/graph_execution.json.gz",
            ("mixed", 46, 8192, 8155),
            26353.441,
            156466.416,
            (413, 361, 10),
            "mixed",
        ),
        (
            "sglang_decode/sglang_Qwen3-8B_decode.json.gz",
            ("decode", 32, 32, 0),
            465716.634,
            473749.943,
            (555, 544, 3),
            True,
        ),
    ],
)
def test_the_step_of_an_engine(file: str, told: object, host: float, span: float, kernels: object, graph: object):
    profile = profile_at(_folder() / file)
    (row,) = ENGINE_STEPS.records(profile)
    assert profile.engine.basis == "annotations"
    assert (row.kind, row.requests, row.tokens, row.context_tokens) == told
    assert row.host_us == host
    assert row.device_span_us == pytest.approx(span, abs=0.002)
    assert (row.kernels, row.graph_kernels, row.copies) == kernels
    assert row.graph == graph
