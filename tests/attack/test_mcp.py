"""Calls of the tools for agents that are made to take memory or time: bounded, and the answer says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from npu_tui.mcp import server, tools
from npu_tui.mcp.server import answered
from npu_tui.mcp.session import OpenProfiles, ToolCall, tokens_of

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
SESSION = OpenProfiles([FIXTURES])


def _asked(name: str, **arguments: Any) -> dict[str, Any]:
    return answered(SESSION, ToolCall(), name, {"path": "dispatch_bound", **arguments})[0]


@pytest.mark.parametrize("cursor", [10**9, 10**18, 10**30])
def test_a_cursor_beyond_the_end_takes_no_memory(cursor: int) -> None:
    answer = _asked("query", sql="SELECT name FROM slices LIMIT 3", cursor=cursor)
    assert answer["data"]["rows"] == []


def test_an_answer_of_very_many_columns_is_cut_and_says_so() -> None:
    answer = _asked("query", sql="SELECT " + ", ".join(f"1 AS c{k}" for k in range(3000)))
    assert answer["data"]["columns_left_out"] == 2900
    assert tokens_of(str(answer)) < 2_000


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("whatif", {"changes": ["kernel MatMulV2 x0.5"] * 101}),
        ("screenshot", {"keys": "x " * 501}),
        ("whatif", {"limit": "\ud800"}),
    ],
)
def test_what_is_too_much_or_no_argument_is_refused(name: str, arguments: dict[str, Any]) -> None:
    assert "internal" not in _asked(name, **arguments)["error"]


def test_a_panic_of_polars_does_not_end_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    class PanicException(BaseException):
        pass

    def run(*_: Any) -> Any:
        raise PanicException("index out of bounds")

    monkeypatch.setitem(server.TOOLS, "query", tools.Tool(tools.Query, run))
    assert "internal error" in _asked("query", sql="SELECT 1")["error"]
