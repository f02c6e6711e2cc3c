"""Graphs whose kernels have no links of their own, and what a run without steps is divided by."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jobs import facts_of, profile_at

from npu_tui.strings import words
from npu_tui.trace.text import duration_text

HOST, CANN, DEVICE = 4001, 5001, 5002
NO_MODEL = 4294967295


class Writer:
    """A trace in µs, written call by call."""

    def __init__(self) -> None:
        names = {HOST: "Python", CANN: "CANN", DEVICE: "Ascend Hardware"}
        self.events: list[dict[str, Any]] = [
            {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}}
            for pid, name in names.items()
        ]
        self.links = 0

    def host(self, name: str, start: float, length: float, category: str = "cpu_op") -> None:
        self.slice(name, HOST, 1, start, length, cat=category)

    def launch(self, call: str, start: float, kernel: float) -> None:
        """A call of CANN with a link to the kernel that starts at `kernel`."""
        self.links += 1
        self.slice(call, CANN, 1, start, 4)
        link = {"name": "HostToDevice", "cat": "HostToDevice", "id": str(self.links << 32)}
        self.events += [
            link | {"ph": "s", "pid": CANN, "tid": 1, "ts": start + 1},
            link | {"ph": "f", "bp": "e", "pid": DEVICE, "tid": 2, "ts": kernel},
        ]

    def kernel(self, type: str, start: float, length: float, stream: int = 2) -> None:
        name = f"aclnn{type}_{type}_{type}"
        self.slice(name, DEVICE, stream, start, length, args={"Task Type": "AI_CORE", "Model Id": NO_MODEL})

    def slice(self, name: str, pid: int, tid: int, start: float, length: float, **more: Any) -> None:
        self.events.append(
            {"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": start, "dur": length, "args": {}} | more
        )

    def profile(self, folder: Path) -> Any:
        path = folder / "trace_view.json"
        path.write_text(json.dumps(self.events))
        return profile_at(path, None)


def replayed(call: str, layers: int = 6, annotation: str = "", replays: int = 5) -> Writer:
    """Replays of a graph of equal layers, 800 µs apart, each with a head of another size; without `call` no launch."""
    writer, at = Writer(), 0.0
    for _ in range(replays):
        if annotation:
            writer.host(annotation, at, 30, "user_annotation")
        if call:
            writer.launch(call, at + 5, at + 20)
        for k in range(2 * layers):
            writer.kernel("MatMulV2" if k % 2 else "AddRmsNorm", at + 20 + 22 * k, 20, 2 if call else 40)
        head = at + 20 + 44 * layers + 10
        writer.launch("Node@launch", at + 40, head)
        writer.kernel("MatMulV2", head, 90)
        at = head + 800
    return writer


@pytest.mark.parametrize("call", ["AscendCL@aclmdlRIExecuteAsync", "Node@launch", ""])
def test_the_device_runs_dry_between_graphs_only(call: str, tmp_path: Path) -> None:
    """Gaps of 2 µs in a graph are no pauses of Python, and the head of every replay is no outlier."""
    found = replayed(call).profile(tmp_path)
    facts = facts_of(found)
    assert np.rint(facts.drains.end - facts.drains.start).tolist() == [730_000 if call else 1_004_000] * 4
    (title,) = (words(finding.title) for finding in found.findings.findings if finding.id == "DISPATCH.INTERRUPT")
    assert title == f"The device runs dry for {duration_text(4 * 730_000 / facts.count)} per repetition"
    assert "OP.OUTLIER" not in {finding.id for finding in found.findings.findings}


@pytest.mark.parametrize(
    ("annotation", "unit"),
    [
        ("execute_model", "token"),
        ("NPUModelRunner.execute_model", "token"),
        ("execute_8_context_0(sq0sk0)_generation_8(sq8sk99)", "token"),
        ("", "repetition"),
    ],
)
def test_graphs_and_engines_are_counted_not_layers(annotation: str, unit: str, tmp_path: Path) -> None:
    rhythm = facts_of(replayed("AscendCL@aclmdlRIExecuteAsync", annotation=annotation).profile(tmp_path)).rhythm
    assert rhythm is not None
    assert (rhythm.count, rhythm.unit) == (5, unit)


def test_pieces_of_a_pass_are_one_token(tmp_path: Path) -> None:
    """Graphs of the parts of a layer, with attention launched between them."""
    writer, at = Writer(), 0.0
    for _ in range(6):
        for kind in (*("RmsNorm", "PagedAttention", "MatMulV2") * 4, "ArgMaxV2"):
            eager = kind in ("PagedAttention", "ArgMaxV2")
            writer.launch("Node@launch" if eager else "AscendCL@aclmdlRIExecuteAsync", at, at + 10)
            writer.kernel(kind, at + 10, 20)
            at += 30
    profile = writer.profile(tmp_path)
    assert [(step.captured, step.kernels) for step in profile.engine.steps] == [("mixed", 13)] * 6


def test_a_token_begins_with_the_inputs_of_its_graph(tmp_path: Path) -> None:
    """Embeddings are looked up before the graph, behind the choice of the token before."""
    writer = Writer()
    for at in range(0, 6000, 1000):
        for k, kind in enumerate(("GatherV2", "Add", *("MatMulV2", "PagedAttention") * 6, "ArgMaxV2")):
            if k in (0, 1, 2, 14):
                writer.launch(
                    "AscendCL@aclmdlRIExecuteAsync" if k == 2 else "Node@launch", at + 5 * k, at + 20 * k + 20
                )
            writer.kernel(kind, at + 20 * k + 20, 18)
    steps = writer.profile(tmp_path).engine.steps
    assert [(step.captured, step.kernels, step.start) for step in steps] == [
        ("graph", 15, 1_000_000 * k + 20_000) for k in range(6)
    ]


@pytest.mark.parametrize("annotation", ["execute_32_context_0(sq0sk0)_generation_32(sq32sk9)", ""])
def test_the_layers_of_one_call_are_no_tokens(annotation: str, tmp_path: Path) -> None:
    writer = replayed("AscendCL@aclmdlRIExecuteAsync", layers=20, annotation=annotation, replays=1)
    assert facts_of(writer.profile(tmp_path)).rhythm is None


def layered(*after: str, times: int = 12, named: str = "") -> Writer:
    """Layers of three kernels, launched one by one, `after` once for every four of them, `named` ranges for twelve."""
    writer, at = Writer(), 0.0
    writer.host("aten::empty", 0, 1, "cpu_op")  # a program of torch_npu
    for k in range(times):
        if named and k % 12 == 0:
            writer.host(named.format(k), at, 30 * (36 + 3 * len(after)), "cpu_op")
        for kind in ("MatMulV2", "SoftmaxV2", "Add", *(after if k % 4 == 3 else ())):
            writer.launch("Node@launch", at, at + 10)
            writer.kernel(kind, at + 10, 8)
            at += 30
    return writer


@pytest.mark.parametrize(
    ("named", "after", "count", "unit"),
    [
        ("", (), 12, "repetition"),  # images, or the time steps of an LSTM
        ("", ("PagedAttention",), 12, "repetition"),  # layers
        ("", ("PagedAttention", "ArgMaxV2"), 12, "token"),
        ("", ("PagedAttention", "SoftmaxGrad"), 12, "iteration"),
        ("denoise {}", ("SoftmaxV2",), 4, "repetition"),
        ("decode_step", ("PagedAttention",), 4, "token"),  # of three layers each
    ],
)
def test_a_rhythm_is_a_token_where_something_decodes(
    named: str, after: Any, count: int, unit: str, tmp_path: Path
) -> None:
    found = layered(*after, times=48 if after else 12, named=named).profile(tmp_path)
    rhythm = facts_of(found).rhythm
    assert rhythm is not None
    assert (rhythm.count, rhythm.unit) == (count, unit)
    advice = [words(text) for finding in found.findings.findings for text in finding.advice]
    assert any("Serving" in text for text in advice) == (unit == "token")
