"""The protocol: a real process on standard input and output, two clients, progress, cancel, resources and prompts."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextvars import copy_context
from pathlib import Path
from threading import Event

import anyio
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from measured import profile_at

from npu_tui.cli.main import main
from npu_tui.manual import TOPICS
from npu_tui.mcp import server, tools
from npu_tui.mcp.server import make_server
from npu_tui.mcp.session import OpenProfiles, ToolCall, tokens_of
from npu_tui.trace.once import Cancelled, given_up
from npu_tui.tui.picture import screen
from npu_tui.tui.session import make_session

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"


ENDLESS = "SELECT count(*) FROM slices a CROSS JOIN slices b CROSS JOIN slices c WHERE a.start + b.start < c.start"


def words_of(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def below(pid: int) -> list[int]:
    """The processes that ``pid`` has started, and those that they have."""
    own = [int(child) for file in Path(f"/proc/{pid}/task").glob("*/children") for child in file.read_text().split()]
    return [each for child in own for each in (child, *below(child))]


def seconds_of(pid: int) -> float:
    """What ``pid`` and the processes below it have taken of the processors."""
    fields = [Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split() for each in (pid, *below(pid))]
    return sum(int(ticks) for field in fields for ticks in field[11:15]) / os.sysconf("SC_CLK_TCK")


def test_a_process_answers_on_standard_input_and_output_and_ends_with_it() -> None:
    words = ["-m", "npu_tui", "mcp", "--root", str(FIXTURES)]
    parameters = StdioServerParameters(command=sys.executable, args=words)

    async def run() -> None:
        async with Client(stdio_client(parameters), mode="legacy") as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == [*tools.TOOLS]
            answer = await client.call_tool("open", {"path": "healthy"})
            assert not answer.is_error
            assert json.loads(answer.content[0].text)["data"]["trace"]["slices"]
            assert (await client.call_tool("report", {"path": "/etc"})).is_error
            assert not (await client.call_tool("query", {"path": "#1", "sql": "SELECT 1 AS one"})).is_error
            (server_process,) = {pid for pid in below(os.getpid()) if b"mcp" in words_of(pid)}
            before = seconds_of(server_process)
            with anyio.move_on_after(0.5) as scope:
                await client.call_tool("query", {"path": "healthy", "sql": ENDLESS})
            assert scope.cancelled_caught
            await anyio.sleep(0.3)
            used = seconds_of(server_process)
            await anyio.sleep(0.5)
            assert seconds_of(server_process) - used < 0.1
            assert before < used

    asyncio.run(run())


def test_halves_of_characters_are_replaced_and_whole_ones_are_not() -> None:
    text = r'"\ud83d \\ud83d \ud83d\ude00 \udc00\n \\\ud83d"'
    assert json.loads(server.whole(text)) == "\ufffd \\ud83d \U0001f600 \ufffd\n \\\ufffd"


def test_the_list_of_tools_is_small_and_its_schemas_hold() -> None:
    listed = server.listed_tools(OpenProfiles([FIXTURES]))
    assert [tool.name for tool in listed] == [
        "open", "report", "explain", "tables", "query", "whatif", "compare", "ranks", "log", "screenshot",
        "crop",
    ]  # fmt: skip
    assert tokens_of(json.dumps([tool.input_schema for tool in listed])) < 3_500
    writes = [tool.name for tool in listed if tool.annotations and not tool.annotations.read_only_hint]
    assert writes == ["screenshot", "crop"]
    assert all(tool.description and tool.input_schema["type"] == "object" for tool in listed)


def test_two_clients_share_what_is_open() -> None:
    session = OpenProfiles([FIXTURES])

    async def run() -> None:
        shared = make_server(session)
        async with Client(shared) as one, Client(shared) as two:
            answers = {}

            async def ask(client: Client, name: str) -> None:
                answers[name] = await client.call_tool("open", {"path": "dispatch_bound"})

            async with anyio.create_task_group() as group:
                group.start_soon(ask, one, "one")
                group.start_soon(ask, two, "two")
            assert answers["one"].structured_content == answers["two"].structured_content

    asyncio.run(run())
    assert len(session._opened) == 1


def test_a_call_that_is_given_up_stops_and_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, ended = Event(), Event()

    def slow(session: OpenProfiles, call: ToolCall, given: tools.Explain) -> tools.Answer:
        call.tell(1, 2)
        begun.set()
        call.given_up.wait(20)
        ended.set()
        call.go_on()
        raise AssertionError

    monkeypatch.setitem(tools.TOOLS, "explain", tools.Tool(tools.Explain, slow))

    async def run() -> None:
        told = []

        async def progress(done: float, total: float | None, message: str | None) -> None:
            told.append((done, total))

        async with Client(make_server(OpenProfiles([FIXTURES]))) as client:
            with anyio.move_on_after(30) as scope:
                async with anyio.create_task_group() as group:
                    group.start_soon(lambda: client.call_tool("explain", {}, progress_callback=progress))
                    while not told:
                        await anyio.sleep(0.01)
                    group.cancel_scope.cancel()
            assert not scope.cancelled_caught
            await anyio.to_thread.run_sync(ended.wait, 10)
            assert told == [(1, 2)]
            assert not (await client.call_tool("open", {"path": "healthy"})).is_error
            assert not given_up.get().is_set(), "a client of the same process goes on"

    asyncio.run(run())
    assert ended.is_set()


def test_resources_and_prompts() -> None:
    async def run() -> None:
        async with Client(make_server(OpenProfiles([FIXTURES]))) as client:
            addresses = [str(resource.uri) for resource in (await client.list_resources()).resources]
            assert {f"npu-tui://manual/{topic}" for topic in TOPICS} < set(addresses)
            for address in ("npu-tui://finding/DISPATCH.VERTICAL", "npu-tui://manual/idle", "npu-tui://schema/compare"):
                assert address in addresses
                assert (await client.read_resource(address)).contents[0].text
            for address in ("npu-tui://manual/../en/idle", "npu-tui://nothing/x", "file:///etc/passwd"):
                with pytest.raises(MCPError, match="no such resource"):
                    await client.read_resource(address)
            names = [prompt.name for prompt in (await client.list_prompts()).prompts]
            assert names == ["why-slow", "change-helped", "which-rank"]
            given = await client.get_prompt("change-helped", {"base": "a", "new": "b"})
            assert "base a and new b" in given.messages[0].content.text
            with pytest.raises(MCPError, match="an argument is missing"):
                await client.get_prompt("change-helped", {"base": "a"})

    asyncio.run(run())


def test_wrong_usage(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit):
        main(["mcp", "--root", "/nowhere"])
    assert "there is no such folder" in capsys.readouterr().err
    monkeypatch.setattr("npu_tui.cli.query.find_spec", lambda name: None)
    assert main(["mcp"]) == 2
    assert "pip install 'npu-tui[mcp]'" in capsys.readouterr().err


def test_a_report_that_is_given_up_stops_at_its_next_measure() -> None:
    session, call = OpenProfiles([FIXTURES]), ToolCall()
    given = {"path": "dispatch_bound", "range": "1ms..3ms"}
    assert "error" not in server.answered(session, ToolCall(), "open", {"path": "dispatch_bound"})[0]

    def run() -> None:
        given_up.set(call.given_up)
        call.given_up.set()
        for tool, arguments in (("report", given), ("compare", {"base": "healthy", "new": "dispatch_bound"})):
            with pytest.raises(Cancelled):
                server.answered(session, call, tool, arguments)

    copy_context().run(run)
    assert "error" not in server.answered(session, ToolCall(), "report", given)[0]


def test_a_picture_that_is_given_up_ends_without_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    shown, nobody = make_session([profile_at(FIXTURES / "healthy")]), Event()
    nobody.set()

    def run() -> None:
        given_up.set(nobody)
        with pytest.raises(Cancelled):
            screen(shown, 80, 24, [])

    copy_context().run(run)
    assert capsys.readouterr() == ("", "")
