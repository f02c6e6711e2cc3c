"""However a trace comes in, it is the one of the reference reader, and its report is the same to the byte."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from compare import assert_equal
from documents import FOREIGN, LINK_END, NAME, SAMPLE, SLICE, Document, documents
from equality import assert_same
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import read
from ways import every_way

from npu_tui.load.args import json_args
from npu_tui.load.errors import InputError
from npu_tui.load.load import load
from npu_tui.output.envelope import json_bytes
from npu_tui.output.report import report
from npu_tui.profile import profile as measuring
from npu_tui.profile.profile import Profile

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
ANY = SLICE | LINK_END | SAMPLE | NAME | FOREIGN


@settings(max_examples=5)
@given(documents(ANY), st.integers(32, 400), st.integers(16, 600))
def test_trace_and_report_are_the_same(
    tmp_path_factory: pytest.TempPathFactory, document: Document, chunk: int, length: int
) -> None:
    folder = tmp_path_factory.getbasetemp()
    ways = every_way(document.data, folder, length, chunk)
    _, alone = next(ways)
    assert_equal(alone, read(document.data))
    events = [json.loads(event) for event in document.events]
    answer = json_bytes(report(Profile(alone)))
    for way, trace in ways:
        assert_same(alone, trace, way)
        assert [json_args(trace).event(ordinal) for ordinal in range(len(events))] == events, way
        trace.path = alone.path
        assert json_bytes(report(Profile(trace))) == answer, way


@pytest.mark.parametrize(
    ("name", "large"),
    [("dispatch_bound", False), ("level0", False), ("communication_bound", True), ("msprof_two_devices", True)],
)
def test_threads_change_no_answer(name: str, large: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = load(FIXTURES / name)
    alone = json_bytes(report(Profile(trace)))
    monkeypatch.setattr(measuring, "_WORTH_A_THREAD", 0)
    if large:
        monkeypatch.setattr(measuring, "_LARGE", 0)
    trace = load(FIXTURES / name)
    assert json_bytes(report(Profile(trace, threads=3))) == alone


def test_what_a_thread_meets_is_told_where_it_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "trace_view.json"
    shutil.copy(FIXTURES / "communication_bound" / "ASCEND_PROFILER_OUTPUT" / "trace_view.json", path)
    monkeypatch.setattr(measuring, "_WORTH_A_THREAD", 0)
    profile = Profile(load(path), threads=2)
    path.unlink()
    with pytest.raises(InputError, match="trace_view"):
        report(profile)
