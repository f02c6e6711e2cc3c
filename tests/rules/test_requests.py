"""A server that nobody asks is idle, not late; what it makes in one request are several tokens."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from cause_jobs import CAUSES
from jobs import by_id, measured
from situations import Trouble
from test_repetitions import Writer

from npu_tui.output.report import report
from npu_tui.output.report_document import report_document
from npu_tui.output.statement import written_document
from npu_tui.output.text import ALL
from npu_tui.strings import words

TOKENS, REQUESTS, GAP = 6, 5, 30_000
POLL = "<method 'poll' of 'select.epoll' objects>"


def served(frame: str, tokens: tuple[int, ...] = (TOKENS,) * REQUESTS, around: str = "", prefill: int = 1) -> Writer:
    """Requests of several tokens, each of 12 kernels; ``frame`` lasts 30 ms between two of them. Times in µs.

    The kernels of the first token of a request take ``prefill`` times as long.
    """
    writer, at = Writer(), 1_000.0
    for request, count in enumerate(tokens):
        if request:
            if around:
                writer.host(around, at + 5, GAP - 10, "python_function")
            if frame:
                writer.host(frame, at + 10, GAP - 20, "python_function")
            at += GAP
        begun = at
        for token in range(count):
            length = 100 if token else 100 * prefill
            start = at
            writer.host("aten::npu_graph_replay", start - 20, 10)
            writer.launch("AscendCL@aclmdlRIExecuteAsync", start - 18, start)
            for kind in ("GatherV2", *("RmsNorm", "MatMulV2", "PagedAttention") * 3, "RmsNorm", "ArgMaxV2"):
                writer.kernel(kind, at, length)
                at += length + 1
        writer.host("aten::item", begun + 30, at - begun)
        at += 40
    return writer


@pytest.mark.parametrize(
    "frame",
    [POLL, "queue.py(171): get", "<method 'accept' of '_socket.socket' objects>", "zmq/sugar/socket.py(12): recv"],
)
def test_a_server_that_nobody_asks_is_idle(tmp_path: Path, frame: str) -> None:
    profile = served(frame).profile(tmp_path)
    found, (facts,) = profile.findings, profile.facts
    rows = by_id(found)
    assert (facts.rhythm.unit, facts.rhythm.count) == ("token", TOKENS * REQUESTS)
    assert rows["SERVE.IDLE"].severity == "info"
    assert rows["SERVE.IDLE"].gain_ns is None
    assert words(found.verdict[0]).startswith("Waits for requests are left out (119.")
    for row in found.findings:
        assert row.severity == "info" or row.cls != "dispatch" or (row.gain_ns or 0) < 100_000, row.id
        assert "TASK_QUEUE_ENABLE" not in " ".join(map(words, row.advice)) or row.severity in ("info", "low")
    assert facts.share(facts.sums.computing) > 0.9
    said = report(profile)
    assert said.overlap.free_unasked_us == pytest.approx(said.dispatch.lost_unasked_us, rel=0.02)
    assert said.dispatch.lost_us - said.dispatch.lost_unasked_us < 0.1 * said.dispatch.lost_us
    assert sum(line.lost_us for line in said.dispatch.code_lines) < 0.1 * said.dispatch.lost_us
    assert "no request, or the profiler works" in written_document(report_document(said), "text", ALL)


def test_time_lost_is_that_of_launches_that_were_asked_for() -> None:
    """The title, its ranges and those of the report say one figure."""
    slow = replace(CAUSES["decode: slow Python"].job[0], trouble=Trouble(request_ns=40_000_000))
    profile = measured(slow)
    found, said = by_id(profile.findings)["DISPATCH.VERTICAL"], report(profile).dispatch
    assert said.lost_unasked_us > 0.2 * said.lost_us
    told = sum(place.note.args["lost"] for place in found.evidence if "links" in place.note.args)
    assert found.title.args["each"].args["time"] * found.count == pytest.approx(told)
    assert sum(row.lost_us for row in said.ranges) == pytest.approx(told / 1000)


def test_requests_of_uneven_length(tmp_path: Path) -> None:
    (facts,) = served(POLL, (6, 3, 9, 4)).profile(tmp_path).facts
    assert (facts.rhythm.unit, facts.rhythm.count) == ("token", 22)


def test_other_pauses_are_pauses(tmp_path: Path) -> None:
    rows = by_id(served("batcher.py(131): build_batch").profile(tmp_path).findings)
    assert "SERVE.IDLE" not in rows
    assert max((row.gain_ns or 0) for row in rows.values()) > 3_000_000


@pytest.mark.parametrize("prefill", [1, 4])
@pytest.mark.parametrize("frames", [False, True])
def test_a_pause_that_no_frame_tells_may_be_without_requests(tmp_path: Path, prefill: int, frames: bool) -> None:
    """Where frames are recorded, a pause between equal tokens holds a request up."""
    writer = served("", prefill=prefill)
    if frames:
        writer.host("engine.py(98): step", 1_000, 50, "python_function")
    found = writer.profile(tmp_path).findings
    rows, idle = by_id(found), prefill > 1 or not frames
    assert ("SERVE.IDLE" in rows, "HOST.PAUSE" in rows) == (idle, not idle)
    assert words(found.verdict[0]).startswith("Pauses in which there may be no request are left out") == idle


def test_a_wait_for_a_batch_is_none_for_a_request(tmp_path: Path) -> None:
    found = served("queue.py(171): get", around="torch/utils/data/dataloader.py(631): __next__").profile(tmp_path)
    assert "SERVE.IDLE" not in by_id(found.findings)
