"""Every tool by the client of the SDK, in memory: what it answers, how much, and what it refuses."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from npu_tui.mcp.answers import tokens_of
from npu_tui.mcp.server import make_server
from npu_tui.mcp.session import Session

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
SESSION = Session([FIXTURES])


def asked(name: str, session: Session = SESSION, **arguments: Any) -> dict[str, Any]:
    """The answer of a tool; what an answer always holds is checked."""

    async def call() -> Any:
        async with Client(make_server(session)) as client:
            return await client.call_tool(name, arguments)

    result = asyncio.run(call())
    text = result.content[0].text
    assert "\n" not in text
    assert tokens_of(text) <= max(arguments.get("tokens", 2_000), 300)
    assert result.structured_content == json.loads(text)
    assert result.is_error == ("error" in result.structured_content)
    return result.structured_content


def test_open_reads_a_profile_and_says_what_is_wrong() -> None:
    answer = asked("open", path="dispatch_bound")
    assert answer["verdict"][0].startswith("DISPATCH: the NPU waits 21.35 ms of 24.62 ms for Python")
    assert next(iter(answer)) == "verdict"
    assert answer["data"]["findings"][0] == {
        "id": "DISPATCH.VERTICAL", "severity": "high", "gain_us": 7090.502, "gain_unit": "step",
    }  # fmt: skip
    follow = answer["next"][0]
    again = asked(follow["tool"], **follow["arguments"])["data"]["findings"][0]
    assert again["code_lines"][0] == {"file": "/workspace/vit/model.py", "line": 64, "function": "forward"}


def test_report_is_that_of_the_command_line() -> None:
    from npu_tui import open as opened

    whole = json.loads(opened(FIXTURES / "dispatch_bound").report().json())
    answer = asked("report", path=str(FIXTURES / "dispatch_bound"))
    assert answer["data"]["overlap"] == whole["overlap"]
    assert answer["more"]["findings"] == {"shown": len(answer["data"]["findings"]), "of": 12,
                                          "cursor": len(answer["data"]["findings"])}  # fmt: skip
    assert answer["more"]["sections"]["operators"] == len(whole["operators"])
    rows, cursor = [], 0
    while cursor is not None:  # read to its end, page by page
        page = asked("report", path="dispatch_bound", fields=["operators"], limit=8, cursor=cursor)
        rows += page["data"]["operators"]
        cursor = page.get("more", {}).get("operators", {}).get("cursor")
    assert rows == whole["operators"]
    assert asked("report", path="dispatch_bound", fields="overlap.free_us,findings.id", tokens=600)["data"] == {
        "overlap": {"free_us": whole["overlap"]["free_us"]},
        "findings": [{"id": row["id"]} for row in whole["findings"]],
    }


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("report", {"path": "nothing_here"}, "no such file"),
        ("report", {"path": "/etc"}, "outside of the folders"),
        ("report", {"path": "../npu_tui"}, "outside of the folders"),
        ("report", {"path": "dispatch_bound", "finding": "DISPATCH.VERT"}, "DISPATCH.VERTICAL"),
        ("report", {"path": "dispatch_bound", "finding": "COMM.STRAGGLER"}, "not among the findings"),
        ("report", {"path": "dispatch_bound", "fields": ["operator"]}, "there is no field"),
        ("report", {"path": "dispatch_bound", "range": "5ms"}, "a range is two times"),
        ("report", {"path": "dispatch_bound", "step": 99}, "does not exist"),
        ("report", {"paht": "dispatch_bound"}, "the arguments of"),
        ("report", {"path": "dispatch_bound", "limit": 0}, "the arguments of"),
        ("nothing", {}, "there is no tool"),
    ],
)
def test_refusals_are_one_line_that_says_what_to_do(name: str, arguments: dict[str, Any], words: str) -> None:
    assert words in asked(name, **arguments)["error"]
