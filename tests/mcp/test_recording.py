"""Recording by agents: only where it is allowed, within the roots, with what to do next."""

from __future__ import annotations

from pathlib import Path

from npu_tui.mcp.server import answered, tools_of
from npu_tui.mcp.session import OpenProfiles, ToolCall
from tests.record.live import live_job


def test_a_session_records_only_where_it_is_allowed_to(tmp_path: Path) -> None:
    assert not {"record", "analyse"} & tools_of(OpenProfiles([tmp_path])).keys()
    refused, _ = answered(OpenProfiles([tmp_path]), ToolCall(), "record", {"path": "job"})
    assert "no tool" in refused["error"]
    assert {"record", "analyse"} <= tools_of(OpenProfiles([tmp_path], may_record=True)).keys()


def test_a_job_is_recorded_and_the_profile_is_what_comes_next(tmp_path: Path) -> None:
    session = OpenProfiles([tmp_path], may_record=True)
    with live_job(tmp_path / "job"):
        found, _ = answered(session, ToolCall(), "record", {"path": "job", "steps": 3})
        again, _ = answered(session, ToolCall(), "record", {"path": "job", "steps": 3})
    assert [each["tool"] for each in found["next"]] == ["open"]
    assert [each["tool"] for each in again["next"]] == ["open", "compare"]
    opened, _ = answered(session, ToolCall(), "open", again["next"][0]["arguments"])
    assert "holds up the NPU" in opened["verdict"][0]


def test_nothing_outside_of_the_roots_is_recorded(tmp_path: Path) -> None:
    session = OpenProfiles([tmp_path / "root"], may_record=True)
    (tmp_path / "root").mkdir()
    with live_job(tmp_path / "job"):
        before = (tmp_path / "job" / "profiler_config.json").stat()
        (tmp_path / "root" / "job").symlink_to(tmp_path / "job")
        for path in ("../job", str(tmp_path / "job"), "job"):
            for tool in ("record", "analyse"):
                found, _ = answered(session, ToolCall(), tool, {"path": path})
                assert "outside" in found["error"]
        assert (tmp_path / "job" / "profiler_config.json").stat() == before


def test_a_call_that_is_given_up_leaves_the_switch_off(tmp_path: Path) -> None:
    session, call = OpenProfiles([tmp_path], may_record=True), ToolCall()
    call.given_up.set()
    with live_job(tmp_path, "--ends", "still"):
        found, _ = answered(session, call, "record", {"path": "."})
        assert "error" in found
        assert b'"start_step": 0' in (tmp_path / "profiler_config.json").read_bytes()
