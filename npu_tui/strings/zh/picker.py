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
    "picker.keys": "{press[open_profile]} 打开   {press[mark_profile]} 标记   输入文字 筛选   ← → 作业的各卡   {press[help]} 帮助   {press[leave_list]} 退出",
    "picker.keys.filter": "{press[open_profile]} 打开   ↑ ↓ 选择   {press[mark_profile]} 标记   Esc 显示全部",
    "picker.keys.marked": "已标记 {count:count} 个：{press[open_profile]} 一起打开   {press[mark_profile]} 标记   Esc 取消标记",
    "picker.job_alone": "作业单独打开，包含全部卡：请按 {press[open_profile]}",
    "picker.too_many": "已标记 {count:count} 个；最多一起打开 {most} 个",
    "picker.help.words": "Enter 打开 profile 为时间线，作业（▾）为各卡总览，已标记的上下排列一起打开；在其中按 Esc 回到此列表。"
    "不是按键的字母开始按名称、卡号和结论筛选，Backspace 删除最后一个。最新的在最前；作业之后是它的各卡。"
    "结论逐步给出：先是有解析缓存的 profile，再从小到大。很大的 trace 只在打开时读取。",
    "group.list": "profile 列表",
    "help.task.list": "profile 列表",
    "command.open_profile": "打开 profile、作业或已标记的；在多份 profile 的表中与第一份对比打开",
    "command.list_first": "列表开头",
    "command.list_last": "列表末尾",
    "command.page_up": "上翻一页",
    "command.page_down": "下翻一页",
    "command.mark_profile": "标记 profile：已标记的上下排列一起打开",
    "command.fold_job": "显示或隐藏作业的各卡",
    "command.find_profile": "只显示包含某文字的行：名称、rank7、结论",
    "command.leave_list": "离开列表",
    "picker.list": "{path} 下有 {count:count} 个 profile，最新的在最前；npu-tui PATH 打开，npu-tui report PATH 输出报告：",
}
