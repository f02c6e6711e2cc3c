"""选择 profile 的列表的文字。"""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "picker.title": "{count:count} 个 profile",
    "picker.below": "位于 {path}",
    "picker.jobs": "{count:count} 个作业",
    "picker.looking": "继续查找 …",
    "picker.examining": "正在分析 …",
    "picker.worker": "worker",
    "picker.rank": "卡号",
    "picker.time": "时间",
    "picker.size": "大小",
    "picker.level": "级别",
    "picker.verdict": "结论",
    "picker.ranks": "{count:count} 张卡",
    "picker.nothing": "没有符合的 profile",
    "picker.filter": "/{text}   {count:count} 行",
    "picker.type": "输入名称、卡号或结论的一部分；Esc 取消",
    "picker.keys": "Enter 打开   空格 标记   输入文字 筛选   ← → 作业的各卡   ? 帮助   q 退出",
    "picker.keys.filter": "Enter 打开   ↑ ↓ 选择   空格 标记   Esc 显示全部",
    "picker.keys.marked": "已标记 {count} 个：Enter 一起打开   空格 标记   Esc 取消标记",
    "picker.job_alone": "作业单独打开，包含全部卡：请按 Enter",
    "picker.too_many": "已标记 {count} 个；最多一起打开 {most} 个",
    "picker.help.title": "打开哪个 profile",
    "picker.help": "↑ ↓ k j PgUp PgDn Home End：选择\n"
    "Enter、双击：打开 profile 为时间线，作业（▾）为各卡总览\n"
    "空格：标记多个；Enter 上下排列一起打开\n"
    "← →：显示或隐藏作业的各卡\n"
    "字母、& 或 /：只显示包含该文字的行：名称、rank7、结论\n"
    "Backspace、Esc：取消筛选，再取消标记\n"
    "在时间线或作业中按 Esc：回到此列表\n"
    "q、Ctrl+Q：退出\n\n"
    "最新的在最前；作业之后是它的各卡。结论逐步给出：先是有解析副本的 profile，再从小到大。\n"
    "很大的 trace 只在打开时读取。",
    "picker.list": "{path} 下有 {count:count} 个 profile，最新的在最前；npu-tui PATH 打开，npu-tui report PATH 输出报告：",
}
