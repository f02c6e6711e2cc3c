"""The time and the disk of an analysis before it begins, and what tells them."""

from pathlib import Path

import pytest

from npu_tui.record.outputs import estimated, remember


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "npu-tui" / "analyses.json"


def test_without_an_analysis_the_time_is_unknown() -> None:
    found = estimated("torch_npu", 1000)
    assert (found.said.code, found.room) == ("record.estimate.unknown", 2000)
    assert estimated("torch_npu", 1 << 30).said.code == "record.estimate.long"
    assert estimated("msprof", 1 << 30).said.code == "record.estimate.unknown"


def test_the_last_analysis_of_the_same_writer_tells_by_proportion() -> None:
    remember("torch_npu", 500, 7.0, 100)
    remember("torch_npu", 1000, 3.0, 250)
    found = estimated("torch_npu", 4000)
    assert found.said.code == "record.estimate.last"
    assert (found.said.args["length"], found.room) == (12e9, 1000)
    assert (found.said.args["size"], found.said.args["took"]) == (1000, 3e9)
    for like, told in ((62, False), (63, True), (16000, True), (16001, False)):
        assert (estimated("torch_npu", like).said.code == "record.estimate.last") == told
    assert estimated("mindspore", 4000).said.code == "record.estimate.unknown"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b'{"torch_npu": 1}',
        b'{"torch_npu": {"bytes": 0}}',
        b'{"torch_npu": {"bytes": 10, "seconds": -1, "room": 1}}',
        b'{"torch_npu": {"bytes": 1e999, "seconds": 1}}',
        b"\xff",
    ],
)
def test_a_damaged_file_tells_nothing_and_is_replaced(content: bytes, cache: Path) -> None:
    cache.parent.mkdir()
    cache.write_bytes(content)
    assert estimated("torch_npu", 10).said.code == "record.estimate.unknown"
    remember("torch_npu", 10, 1.0, 5)
    assert estimated("torch_npu", 10).room == 5
