"""The texts of the settings file and what may be wrong in it."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "settings.head": "npu-tui 的设置。每行显示默认值：去掉 # 并修改即可。",
    "settings.head.place": "本文件的位置是 {path}；也可用 NPU_TUI_CONFIG 或 --config FILE 指定另一个。",
    "settings.head.keys": 'command = "键" 或键的列表，代替所列的键；空列表表示不绑定。',
    "settings.head.glyphs": "用哪些字符画泳道：{allowed}",
    "settings.head.theme": "配色：{allowed}",
    "settings.head.language": "显示语言：{allowed}",
    "settings.head.thresholds": "诊断的阈值，各附默认值的来源",
    "settings.not_utf8": "第 {byte} 字节处不是 UTF-8",
    "settings.no_toml": "不是有效的 TOML：{words}",
    "settings.too_deep": "不是有效的 TOML：嵌套过深",
    "settings.too_long": "数字过长",
    "settings.no_table": "{name} 是一张表：请单独一行写 [{name}]，设置写在下面",
    "settings.no_key": '{name} 需要一个键（如 "w"）或键的列表',
    "settings.no_text": "{name} 需要带引号的文本",
    "settings.no_bool": "{name} 需要 true 或 false",
    "settings.no_whole": "{name} 需要不小于 0 的整数，如 {default}",
    "settings.no_number": "{name} 需要不小于 0 的数，如 {default}",
    "settings.unknown_table": "没有表 [{name}]",
    "settings.unknown_command": "没有命令 {name}",
    "settings.unknown_screen": "[screen] 中没有 {name}",
    "settings.unknown_threshold": "没有阈值 {name}",
    "settings.unknown_choice": "{name} 不能是 {value}，只能是 {allowed} 之一",
    "settings.nearest": "；是不是 {name}？",
}
