"""However a trace comes in, it is the one of the reference reader, and its report is the same to the byte."""

from __future__ import annotations

import json

import pytest
from compare import assert_equal
from documents import FOREIGN, LINK_END, NAME, SAMPLE, SLICE, Document, documents
from equality import assert_same
from hypothesis import given, settings
from hypothesis import strategies as st
from pretended import PretendedWorkers
from reference import read
from ways import every_way

from npu_tui.ingest.args.json_args import json_args
from npu_tui.profile.profile import Profile
from npu_tui.report.pages.json_report import json_report
from npu_tui.report.report import report

ANY = SLICE | LINK_END | SAMPLE | NAME | FOREIGN


@settings(max_examples=30)
@given(documents(ANY), st.integers(32, 400), st.integers(16, 600), st.integers(0, 99))
def test_trace_and_report_are_the_same(
    tmp_path_factory: pytest.TempPathFactory, document: Document, chunk: int, length: int, seed: int
) -> None:
    folder = tmp_path_factory.getbasetemp()
    ways = every_way(document.data, folder, lambda count: PretendedWorkers(count, seed), length, chunk)
    _, alone = next(ways)
    assert_equal(alone, read(document.data))
    events = [json.loads(event) for event in document.events]
    answer = json_report(report(Profile(alone).whole))
    for way, trace in ways:
        assert_same(alone, trace, way)
        assert [json_args(trace).event(ordinal) for ordinal in range(len(events))] == events, way
        trace.path = alone.path
        assert json_report(report(Profile(trace).whole)) == answer, way
