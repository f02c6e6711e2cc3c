"""The texts of the user's own keys."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "keymap.heading.keys": "按键",
    "keymap.heading.what": "作用",
    "keymap.unknown": "[keys] {command}：没有键 {key}",
    "keymap.nearest": "；是不是 {name}？",
    "keymap.fixed": "[keys] {command}：{key} 总是立即退出",
    "keymap.escape": "[keys] {command}：{key} 总是关闭、清除并回到泳道",
    "keymap.twice": "[keys] {key} 同时分给了 {other} 和 {command}",
    "keymap.begins": "[keys] {key} 是 {other} 的 {sequence} 的开头，不能再用于 {command}",
    "keymap.line": "第 {line} 行",
    "keymap.taken": "[keys] {key} 现在执行 {command}，不再执行 {other}",
    "keymap.ends": "[keys] {key} 现在执行 {command}，因此 {sequence} 不再执行 {other}",
    "keymap.keeps": "，后者仍可用 {keys}",
    "keymap.none_left": "，后者已没有按键：请给它一个键，或写 [] 表示有意如此",
    "keymap.sent_as": "[keys] {command}：大多数终端把 {key} 发送为 {other}",
    "keymap.without": "{commands} 没有按键了：npu-tui settings --check 会说明原因",
}
