"""Passes of a simulated service that say how they are dispatched: as a graph, or kernel by kernel."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from served import figure, served
from service import MS, Batch, Service
from service_writer import EPOCH_NS, Folder

from npu_tui.analysis.limits import Thresholds
from npu_tui.load.load import load
from npu_tui.rules.service_verdict import JudgedService, judged
from npu_tui.strings import words

_FLOORED = Service(requests=80, launch=36 * MS)


def _told(service: Service, mode: Callable[[Batch], str], folder: Path) -> JudgedService:
    """What is told of ``service`` whose passes are dispatched with a ``mode``."""
    written = Folder(served(service))
    written.write(folder, trace=True)
    path = folder / "chrome_tracing.json"
    events = json.loads(path.read_bytes())
    for batch in written.batches:
        process = written.prof_id(batch)
        events.append({
            "name": "CudagraphDispatcher.dispatch", "ph": "X", "ts": (EPOCH_NS + batch.forward[0]) / 1000, "dur": 20.0,
            "pid": process, "tid": f"ModelExecute({process.rpartition('-')[2]})", "args": {"mode": mode(batch)},
        })  # fmt: skip
    path.write_text(json.dumps(events))
    return judged(load(folder), Thresholds())


def _decodes(batch: Batch) -> bool:
    return all(kind for _, _, kind, _ in batch.members)


@pytest.mark.parametrize("word", ["NONE", "CUDAGraphMode.NONE"])
def test_passes_without_a_graph_are_a_finding_with_its_settings(word: str, tmp_path: Path) -> None:
    """Replayed with graphs it has the figures of the same service without a least time of passes."""
    found = _told(_FLOORED, lambda batch: word, tmp_path)
    (first, *_), (case, *_) = found.findings.findings, found.remedies.values()
    assert words(first.title).startswith("No graph is captured, and the host launches every kernel: no forward pass")
    assert first.severity != "info"
    assert "--enforce-eager" in words(first.advice[0])
    after = found.facts.after(case)
    assert after
    assert after["tpot_p50"] == pytest.approx(figure(replace(_FLOORED, launch=0), "tpot", 50), rel=0.1)


def test_a_least_time_of_passes_with_graphs_stays_open(tmp_path: Path) -> None:
    """Reading the weights may take as long: what launching would gain is told under an "if"."""
    found = _told(_FLOORED, lambda batch: "FULL" if _decodes(batch) else "NONE", tmp_path)
    assert [one.severity for one in found.findings.findings if one.id == "SERVICE.MODEL"] == ["info"]


@pytest.mark.parametrize("known", [True, False])
def test_larger_batches_without_a_graph_are_told_where_the_mode_says_so(known: bool, tmp_path: Path) -> None:
    service = Service(requests=200, gap=120 * MS, captured=8)

    def mode(batch: Batch) -> str:
        return "FULL" if not known or (_decodes(batch) and len(batch.members) <= 8) else "NONE"

    (first, *_) = _told(service, mode, tmp_path).findings.findings
    title = "No graph is captured for more than 8 requests" if known else "Steps of more than "
    assert words(first.title).startswith(title)
