"""The texts of searching."""

from __future__ import annotations

ENGLISH: dict[str, str] = {
    "search.none": "No search: {press[search]} looks for a part of a name, /regex/, or dur>1ms layer:cann class:starved arg:Dims~1024 line:main.py:354 step:50.",
    "search.title": "{count} hits for {text}",
    "search.running": "{count} hits so far for {text}, {share} of the args read",
    "search.name": "name",
    "search.lane": "lane",
    "search.start": "start",
    "search.duration": "duration",
    "search.prompt": "search: ",
    "search.hint": "a part of a name, /regex/, dur>1ms, layer: lane: class: line: step: arg:",
    "search.nothing": "no slice matches {text}",
    "search.nothing_near": "no slice matches {text}; the fields are {fields}",
    "search.more": "{count} hits, listed are the first {shown} and the {shown} longest",
    "search.filter_on": "only hits are in colour",
    "search.filter_off": "all slices are in colour",
    "hit.of": "hit {n} of {count}: {name}",
    "hit.none": "no hits: {press[search]} searches",
    "query.pattern": "/{pattern}/ is no regular expression: {why}",
    "query.pattern_kind": "/{pattern}/: look-around and back references cannot be searched for",
    "query.sign": "{field} takes a colon, such as {example}",
    "query.value": "{field} wants a value, such as {example}",
    "query.time": "{field} wants < <= > >= or = and a time, such as {field}>40us or {field}<=1.5ms",
    "query.class": "no class is called {value}; there are {names}",
    "query.arg": "arg wants a text, or the name of an arg with ~ and a part of its value (or = < > and a number): arg:Input Dims~1024",
}
