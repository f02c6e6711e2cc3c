"""The protocol: the tools, resources and prompts of a session for the clients of the official SDK (``mcp`` 2.x).

https://modelcontextprotocol.io/specification
"""

from __future__ import annotations

import inspect
import io
import logging
import os
import re
from collections.abc import Sequence
from difflib import get_close_matches
from functools import partial
from threading import Thread
from typing import Any

import anyio
import anyio.to_thread
import mcp_types as types
import msgspec
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server

from npu_tui import __version__
from npu_tui.load.errors import InputError, is_panic
from npu_tui.mcp import guide
from npu_tui.mcp.answers import ToolAnswer, dumped, written
from npu_tui.mcp.session import OpenProfiles, Refusal, ToolCall
from npu_tui.mcp.tools import TOOLS, Tool
from npu_tui.strings import Ours, labelling, say, words
from npu_tui.trace.message import Message, message
from npu_tui.trace.once import Cancelled, given_up
from npu_tui.trace.side_file import limit_to, limited_to

Context = ServerRequestContext[Any, Any]

_TICK_SECONDS = 0.2
"""How often progress is told."""


def input_schema(tool: Tool) -> dict[str, Any]:
    """The JSON Schema of the arguments of ``tool``."""
    schema = msgspec.json.schema(tool.arguments)
    found: dict[str, Any] = schema["$defs"][tool.arguments.__name__]
    return {key: found[key] for key in ("type", "properties", "required", "additionalProperties") if key in found}


_TEXT, _LIST = {"type": "string"}, {"type": "array", "items": {"type": "object"}}
_ANSWER = {
    "type": "object",
    "properties": {
        "verdict": {"type": "array", "items": _TEXT},
        "error": _TEXT,
        "about": _TEXT,
        "next": _LIST,
        "more": {"type": "object"},
        "data": {
            "type": "object",
            "description": "Fields and sections of the document: resource npu-tui://schema/report and others",
        },
    },
    "required": ["data"],
}


def tools_of(session: OpenProfiles) -> dict[str, Tool]:
    """The tools that ``session`` has, by name."""
    if not session.may_record:
        return TOOLS
    from npu_tui.mcp import recording  # only who may record needs it

    return TOOLS | recording.TOOLS


def listed_tools(session: OpenProfiles) -> list[types.Tool]:
    """Every tool of ``session`` with its schemas."""
    return [
        types.Tool(
            name=name,
            description=inspect.getdoc(tool.arguments),
            input_schema=input_schema(tool),
            output_schema=_ANSWER,
            annotations=types.ToolAnnotations(
                read_only_hint=not tool.writes, destructive_hint=False, open_world_hint=False
            ),
        )
        for name, tool in tools_of(session).items()
    ]


def answered(
    session: OpenProfiles, call: ToolCall, name: str, arguments: dict[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """The answer of the tool ``name`` as an object, and addresses of pictures; with ``error`` where there is none.

    Raises ``Cancelled`` where the caller has given up.
    """
    with labelling(session.label_of), limited_to(session.roots.folders) as links:
        try:
            answer = _run(session, call, name, arguments)
            return written(answer, session.names), list(answer.links)
        except Cancelled:
            raise
        except BaseException as error:
            if not isinstance(error, Exception) and not is_panic(error):
                raise
            if links and isinstance(error, InputError | OSError):
                error = Refusal(message("mcp.link", path=str(links[0])))
            refused = written(ToolAnswer(verdict=[_said(error)], data={}), session.names)
            return {"error": refused.pop("verdict")[0], **refused}, []


def _run(session: OpenProfiles, call: ToolCall, name: str, arguments: dict[str, Any]) -> ToolAnswer:
    tools = tools_of(session)
    tool = tools.get(name)
    if tool is None:
        raise Refusal(message("mcp.no_tool", name=name, names=list(tools)))
    try:
        given = msgspec.convert(arguments, tool.arguments, strict=False)
    except (msgspec.ValidationError, UnicodeError) as error:
        names = [Ours(field.encode_name) for field in msgspec.structs.fields(tool.arguments)]
        raise Refusal(message("mcp.arguments", why=_plain_why(str(error), names), tool=name, names=names)) from None
    answer = tool.run(session, call, given)
    answer.limit, answer.cursor, answer.tokens = given.limit, given.cursor, given.tokens
    return answer


def _plain_why(why: str, names: Sequence[str]) -> str:
    """What msgspec says is wrong, with the argument that may be meant."""
    if "unknown field" not in why:
        return Ours(why)
    near = get_close_matches(why.split("`")[1], names, 1)
    return f"{why} ({near[0]}?)" if near else why


def _said(error: BaseException) -> str:
    """``error`` in one line that says what to do."""
    if isinstance(said := getattr(error, "message", None), Message):
        return words(said)
    if isinstance(error, OSError):
        return say("mcp.file", path=str(error.filename), why=error.strerror or str(error))
    if isinstance(error, MemoryError):
        return say("cli.no_memory")
    return say("mcp.internal", error=f"{type(error).__name__}: {error}")


def make_server(session: OpenProfiles) -> Server[Any]:
    """The server of ``session``, for any transport."""

    async def list_tools(ctx: Context, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=listed_tools(session))

    async def call_tool(ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        call = ToolCall()
        before = given_up.set(call.given_up)  # the thread that works has a copy of this context
        work = partial(answered, session, call, params.name, params.arguments or {})
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(_tell, ctx, call)
                found, links = await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
                group.cancel_scope.cancel()
        finally:
            call.given_up.set()
            given_up.reset(before)  # a client of the same process goes on in it
        picture = partial(types.ResourceLink, type="resource_link", name="screen", mime_type="image/svg+xml")
        content: list[types.ContentBlock] = [types.TextContent(type="text", text=dumped(found))]
        content += [picture(uri=link) for link in links]
        return types.CallToolResult(content=content, structured_content=found, is_error="error" in found)

    async def list_resources(ctx: Context, params: Any) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=guide.resources())

    async def list_templates(ctx: Context, params: Any) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=guide.templates())

    async def read_resource(ctx: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        return await anyio.to_thread.run_sync(guide.resource, session, str(params.uri))

    async def list_prompts(ctx: Context, params: Any) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=guide.prompts())

    async def get_prompt(ctx: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        return guide.prompt(params.name, dict(params.arguments or {}))

    return Server(
        "npu-tui",
        version=__version__,
        instructions=guide.instructions(),
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
    )


_LONE = re.compile(
    r"""(?P<whole>\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"""
)
"""Half a character, written in JSON as ``\ud83d`` alone; the SDK answers no message that has one."""


class Messages(io.TextIOWrapper):
    """What a client writes, a message a line, with U+FFFD for halves of characters."""

    def readline(self, size: int = -1) -> str:  # type: ignore[override]
        """The next message, empty at the end."""
        return whole(super().readline(size))


def whole(text: str) -> str:
    """The JSON ``text`` with U+FFFD for halves of characters."""
    return _LONE.sub(lambda match: match["whole"] or r"\ufffd", text)


async def _tell(ctx: Context, call: ToolCall) -> None:
    """Tell how much is read, as long as the call lasts; nothing where the client did not ask."""
    told = 0
    while True:
        await anyio.sleep(_TICK_SECONDS)
        if call.done > told:
            told = call.done
            await ctx.session.report_progress(told, call.total or None)


def _prepare() -> None:
    """Import what draws and start what answers SQL, which take as long as the first call of each may."""
    from npu_tui.query.process import begin

    begin()
    import npu_tui.tui.picture  # noqa: F401


def serve(session: OpenProfiles) -> None:
    """Answer on standard input and output until the client closes them."""
    limit_to(session.roots.folders)
    Thread(target=_prepare, daemon=True).start()
    logging.getLogger("mcp").setLevel(logging.CRITICAL)  # what a client does wrong it is told in the answer

    # As the SDK does: what is run by the way reads nothing of the client.
    messages = Messages(os.fdopen(os.dup(0), "rb"), encoding="utf-8", errors="replace")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)

    async def run() -> None:
        server = make_server(session)
        async with stdio_server(anyio.wrap_file(messages)) as (read, write):
            await server.run(read, write, server.create_initialization_options())

    anyio.run(run)
