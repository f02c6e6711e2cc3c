"""The texts of searching."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "search.none": (
        "没有搜索：按 {press[search]} 查找名称的一部分、/正则/，或 dur>1ms layer:cann class:starved arg:Dims~"
        "1024 line:main.py:354 step:50。"
    ),
    "search.title": "{text}：{count:count} 个命中",
    "search.running": "{text}：已有 {count:count} 个命中，args 已读 {share}",
    "search.name": "名称",
    "search.lane": "泳道",
    "search.start": "起点",
    "search.duration": "时长",
    "search.prompt": "搜索：",
    "search.hint": "名称的一部分、/正则/、dur>1ms、layer: lane: class: line: step: arg:",
    "search.nothing": "没有片段匹配 {text}",
    "search.count_so_far": "已有 {count:count} 个命中，args 已读 {share}",
    "search.count": "{count:count} 个命中",
    "search.no_hits": "没有命中",
    "search.field_near": "；该字段是 {near}",
    "search.fields": "；可用的字段有 {fields}",
    "query.place": "没有名称含 {value} 的 {field}{near}",
    "search.more": "{count:count} 个命中，列出前 {shown} 个和最长的 {shown} 个",
    "search.filter_on": "只有命中的片段有颜色",
    "search.filter_off": "所有片段都有颜色",
    "hit.of": "第 {n} 个命中，共 {count} 个：{name}",
    "hit.none": "没有命中：按 {press[search]} 搜索",
    "query.pattern": "不是正则表达式：{why}",
    "query.pattern_kind": "不支持环视和反向引用",
    "query.sign": "{field} 后面用冒号，如 {example}",
    "query.value": "{field} 需要一个值，如 {example}",
    "query.time": "{field} 需要比较符和时间：{field}>40us {field}<=1.5ms",
    "query.class": "没有类别 {value}{near}：{names}",
    "query.nearest": "；是不是 {name}？",
    "query.arg": "arg 需要文本，或名称、比较符和值：arg:1024 arg:Input Dims~64 arg:Block Dim>20",
}
