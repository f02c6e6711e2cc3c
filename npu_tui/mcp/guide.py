"""What is read beside the tools: resources about findings, pages, schemas and pictures, and the prompts of users."""

from __future__ import annotations

from functools import partial

import mcp_types as types
import orjson
from mcp.shared.exceptions import MCPError

from npu_tui.manual.pages import TOPICS, page, title
from npu_tui.mcp.session import OpenProfiles
from npu_tui.output.schemas import REPORTS, report_schema
from npu_tui.strings import ENGLISH, say
from npu_tui.trace.text import brief

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
    found = _found(session, kind, name) if address.startswith(_SCHEME) else None
    if found is None:
        raise MCPError(types.INVALID_PARAMS, say("mcp.no_resource", places=", ".join(_KINDS)))
    text, form = found
    return types.ReadResourceResult(
        contents=[types.TextResourceContents(uri=address, text=text, mime_type=form)], ttl_ms=0, cache_scope="private"
    )


def _found(session: OpenProfiles, kind: str, name: str) -> tuple[str, str] | None:
    """What is called ``name``, and its type; None where there is nothing."""
    from npu_tui.output.explain import explain_document, kind_of
    from npu_tui.output.statement import written_document

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


_LONGEST = 1_000


def prompt(name: str, arguments: dict[str, str]) -> types.GetPromptResult:
    """The text of a prompt. Raises ``MCPError`` for one that is not there, or without its arguments."""
    if name not in PROMPTS or any(not arguments.get(word) for word in PROMPTS[name]):
        told = "; ".join(f"{known} ({', '.join(words)})" for known, words in PROMPTS.items())
        raise MCPError(types.INVALID_PARAMS, say("mcp.no_prompt", prompts=told))
    text = say(f"mcp.prompt.{name}", **{word: brief(arguments[word], _LONGEST) for word in PROMPTS[name]})
    content = types.TextContent(type="text", text=text)
    return types.GetPromptResult(
        description=say(f"mcp.prompt.{name}.title"), messages=[types.PromptMessage(role="user", content=content)]
    )
