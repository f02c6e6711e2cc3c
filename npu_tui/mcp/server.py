"""The protocol: the tools, resources and prompts of a session for the clients of the official SDK (``mcp`` 2.x).

https://modelcontextprotocol.io/specification

What is read beside the tools: resources about findings, pages, schemas and pictures, and the prompts of users. Sessions
that may record have two more tools, which record a job and analyse raw profiles.
"""

from __future__ import annotations

import inspect
import io
import logging
import os
import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from functools import partial
from threading import Thread
from typing import Annotated, Any

import anyio
import anyio.to_thread
import mcp_types as types
import msgspec
import orjson
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from msgspec import Meta

from npu_tui import __version__
from npu_tui.load.errors import InputError, is_panic
from npu_tui.manual import TOPICS, page, title
from npu_tui.mcp.session import Next, OpenProfiles, Refusal, ToolAnswer, ToolCall, dumped, written
from npu_tui.mcp.tools import TOOLS, Arguments, Tool
from npu_tui.output.envelope import REPORTS, report_schema
from npu_tui.output.statement import written_document
from npu_tui.record import Progress, RecordClock, RecordError, RecordRequest
from npu_tui.record.outputs import analysed, raw_below
from npu_tui.record.recording import PROFILES, Recorder, RecordingSource
from npu_tui.strings import ENGLISH, Ours, labelling, say, words
from npu_tui.trace.message import Message, message
from npu_tui.trace.once import Cancelled, given_up
from npu_tui.trace.side_file import limit_to, limited_to
from npu_tui.trace.text import brief, printable

Context = ServerRequestContext[Any, Any]

_TICK_SECONDS = 0.2
"""How often progress is reported."""


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
    return TOOLS | RECORDING_TOOLS if session.may_record else TOOLS


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
            refused = written(ToolAnswer(verdict=[_error_line(error)], data={}), session.names)
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


def _error_line(error: BaseException) -> str:
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
        return types.ListResourcesResult(resources=resources())

    async def list_templates(ctx: Context, params: Any) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=templates())

    async def read_resource(ctx: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        return await anyio.to_thread.run_sync(resource, session, str(params.uri))

    async def list_prompts(ctx: Context, params: Any) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=prompts())

    async def get_prompt(ctx: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        return prompt(params.name, dict(params.arguments or {}))

    return Server(
        "npu-tui",
        version=__version__,
        instructions=instructions(),
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
    """Report how much is read, as long as the call lasts; nothing where the client did not ask."""
    told = 0
    while True:
        await anyio.sleep(_TICK_SECONDS)
        if call.done > told:
            told = call.done
            await ctx.session.report_progress(told, call.total or None)


def _prepare() -> None:
    """Import what draws and start what answers SQL, which take as long as the first call of each may."""
    from npu_tui.query.query import begin

    begin()
    import npu_tui.tui.picture  # noqa: F401


def serve(session: OpenProfiles) -> None:
    """Answer on standard input and output until the client closes them."""
    limit_to(session.roots.folders)
    Thread(target=_prepare, daemon=True).start()
    logging.getLogger("mcp").setLevel(logging.CRITICAL)  # the answer says what a client does wrong

    # As the SDK does: what is run by the way reads nothing of the client.
    messages = Messages(os.fdopen(os.dup(0), "rb"), encoding="utf-8", errors="replace")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)

    async def run() -> None:
        server = make_server(session)
        async with stdio_server(anyio.wrap_file(messages)) as (read, write):
            await server.run(read, write, server.create_initialization_options())

    anyio.run(run)


_SCHEME = "npu-tui://"
_SCHEMA = "2"
"""Answers of the tools have it, whatever the environment asks for."""
_KINDS = {"manual": "topic", "schema": "name", "finding": "id", "picture": "number"}
"""Every kind of resource, and what its address ends with."""

PROMPTS = {"why-slow": ("path",), "change-helped": ("base", "new"), "which-rank": ("path",)}
"""Every prompt with its arguments; the text is ``mcp.prompt.<name>``."""


def instructions() -> str:
    """What a client tells its model about the server: the skill without its head."""
    return page("skill", ENGLISH).split("---", 2)[-1].strip()


def resources() -> list[types.Resource]:
    """The pages of the manual, the schemas, and what every finding means."""
    from npu_tui.output.explain import KINDS

    pages = [(f"manual/{topic}", title(topic, ENGLISH), "text/markdown") for topic in TOPICS]
    schemas = [(f"schema/{name}", f"JSON Schema of {name}", "application/json") for name in REPORTS]
    findings = [(f"finding/{kind.id}", f"What {kind.id} means", "text/markdown") for kind in KINDS]
    return [
        types.Resource(uri=_SCHEME + place, name=place, title=about, mime_type=form)
        for place, about, form in (*pages, *schemas, *findings)
    ]


def templates() -> list[types.ResourceTemplate]:
    """Addresses with a name to fill in."""
    return [types.ResourceTemplate(uri_template=f"{_SCHEME}{kind}/{{{of}}}", name=kind) for kind, of in _KINDS.items()]


def resource(session: OpenProfiles, address: str) -> types.ReadResourceResult:
    """What is at ``address``. Raises ``MCPError`` for what is not there."""
    kind, _, name = address.removeprefix(_SCHEME).partition("/")
    found = _result_named(session, kind, name) if address.startswith(_SCHEME) else None
    if found is None:
        raise MCPError(types.INVALID_PARAMS, say("mcp.no_resource", places=", ".join(_KINDS)))
    text, form = found
    return types.ReadResourceResult(
        contents=[types.TextResourceContents(uri=address, text=text, mime_type=form)], ttl_ms=0, cache_scope="private"
    )


def _result_named(session: OpenProfiles, kind: str, name: str) -> tuple[str, str] | None:
    """What is called ``name``, and its type; None where there is nothing."""
    from npu_tui.output.explain import explain_document, kind_of

    if kind == "manual" and name in TOPICS:
        return page(name, ENGLISH), "text/markdown"
    if kind == "schema" and name in REPORTS:
        return orjson.dumps(report_schema(name, _SCHEMA)).decode(), "application/json"
    if kind == "finding" and (rule := kind_of(name)) is not None:
        return written_document(explain_document(rule, session.thresholds), "markdown"), "text/markdown"
    if kind == "picture" and name in session.pictures:
        return session.pictures[name](), "image/svg+xml"
    return None


def prompts() -> list[types.Prompt]:
    """What users ask most."""
    argument = partial(types.PromptArgument, required=True)
    return [
        types.Prompt(
            name=name, description=say(f"mcp.prompt.{name}.title"), arguments=[argument(name=word) for word in words]
        )
        for name, words in PROMPTS.items()
    ]


_LONGEST_ARGUMENT = 1_000


def prompt(name: str, arguments: dict[str, str]) -> types.GetPromptResult:
    """The text of a prompt. Raises ``MCPError`` for one that is not there, or without its arguments."""
    if name not in PROMPTS or any(not arguments.get(word) for word in PROMPTS[name]):
        told = "; ".join(f"{known} ({', '.join(words)})" for known, words in PROMPTS.items())
        raise MCPError(types.INVALID_PARAMS, say("mcp.no_prompt", prompts=told))
    text = say(f"mcp.prompt.{name}", **{word: brief(arguments[word], _LONGEST_ARGUMENT) for word in PROMPTS[name]})
    content = types.TextContent(type="text", text=text)
    return types.GetPromptResult(
        description=say(f"mcp.prompt.{name}.title"), messages=[types.PromptMessage(role="user", content=content)]
    )


Folder = Annotated[str, Meta(description="A folder below a root")]


class Record(Arguments, frozen=True, kw_only=True):
    """Record some steps of a running job, wait until they are analysed, and say where the profile lies."""

    path: Annotated[str, Meta(description="The folder, below a root, with the job's profiler_config.json")]
    steps: Annotated[int, Meta(ge=1, le=1_000)] = 5
    warmup: Annotated[int, Meta(ge=0, le=1_000)] = 0
    ranks: Annotated[tuple[int, ...], Meta(description="Only these ranks")] = ()
    at: Annotated[int, Meta(ge=0, description="Begin at this step; 0: the next one")] = 0
    stack: Annotated[bool, Meta(description="With Python call stacks, which name lines of code")] = False
    wait: Annotated[int, Meta(ge=1, le=3_600, description="Give up after so many seconds without news")] = 600


class Analyse(Arguments, frozen=True, kw_only=True):
    """Analyse raw profiles with the profiler that wrote them."""

    path: Folder
    ranks: Annotated[tuple[int, ...], Meta(description="Only these ranks; one alone is there soonest")] = ()


def record_tool(session: OpenProfiles, call: ToolCall, given: Record) -> ToolAnswer:
    """A profile of the running job."""
    folder = session.roots.place(given.path)
    out = session.roots.place(str(folder / PROFILES))
    wanted = RecordRequest(
        out, given.steps, given.warmup, given.ranks, given.at or None, stack=given.stack, patience=float(given.wait)
    )
    recorder = Recorder(RecordingSource(folder), wanted)
    told = _state_texts(recorder.record(RecordClock(call.given_up)))
    newest, before = str(recorder.newest), recorder.before
    follow = [Next("open", {"path": newest})]
    follow += [] if before is None else [Next("compare", {"base": str(before), "new": newest})]
    data = {"profile": printable(newest), "before": None if before is None else printable(str(before)), "states": told}
    return ToolAnswer(verdict=told[-1:], data=data, next=follow)


def analyse_tool(session: OpenProfiles, call: ToolCall, given: Analyse) -> ToolAnswer:
    """Raw profiles, analysed."""
    place = session.roots.place(given.path)
    session.roots.check(place)  # another program reads it
    raws = raw_below(place, given.ranks)
    if not raws:
        raise RecordError(message("record.no_raw", path=str(place)))
    told = _state_texts(analysed(raws, RecordClock(call.given_up)))
    data = {"profiles": [printable(str(raw.folder)) for raw in raws], "states": told}
    return ToolAnswer(verdict=told[-1:], data=data, next=[Next("open", {"path": str(raws[0].folder)})])


def _state_texts(states: Iterator[Progress]) -> list[str]:
    """What ``states`` say, each thing once. Raises ``RecordError``."""
    told: dict[str, str] = {}
    for state in states:
        told[state.said.code] = f"{say(f'record.stage.{state.stage}')}: {words(state.said)}"
    return [*told.values()]


RECORDING_TOOLS: dict[str, Tool] = {
    "record": Tool(Record, record_tool, writes=True),
    "analyse": Tool(Analyse, analyse_tool, writes=True),
}
"""Tools of sessions that may record."""
