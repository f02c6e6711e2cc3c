"""The texts of the prompt for commands, times and names."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "ask.hint": "命令、时间（如 12.3ms）、区间（30ms..45ms）、泳道或片段名称",
    "ask.nothing": "没有这个名称",
    "ask.found": "→ {kind} {text}",
    "ask.found_of": "→ {kind} {text}（第 {n:count} 个，共 {count:count} 个，↑ ↓ 选择，Tab 采用）",
    "ask.guess": "没有这个名称；按 ↓ 选择 {kind} {text}",
    "kind.command": "命令",
    "kind.time": "时间",
    "kind.range": "区间",
    "kind.flag": "标记",
    "kind.lane": "泳道",
    "kind.slice": "片段",
}
