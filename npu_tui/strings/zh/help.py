"""The texts of the help sheet."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "help.title": "按键",
    "help.ask": "输入文字查找，Esc 关闭",
    "help.found": "包含 {text}；Esc 显示全部",
    "help.none": "没有按键或命令包含 {text}。",
    "help.task.table": "当前：表格中",
    "help.task.place": "跳转",
    "help.task.slices": "浏览片段",
    "help.task.launches": "追踪下发",
    "help.task.measure": "测量",
    "help.task.search": "搜索",
    "help.task.notes": "标记与复制",
    "help.task.rows": "整理行",
    "help.task.panel": "面板",
    "help.task.compared": "对比两个 profile",
    "help.task.prompt": "输入框中",
    "help.task.mouse": "鼠标",
    "help.task.program": "程序",
    "help.table.move": "上一行、下一行",
    "help.table.sort": "按旁边的列排序",
    "help.table.go": "跳到该行的位置；再按：下一处",
    "help.table.tell": "显示该行的全部内容",
    "help.table.leave": "回到泳道；在此处字母键也能操作泳道",
    "help.prompt.enter": "采用",
    "help.prompt.leave": "放弃",
    "help.prompt.choose": ": 之后的另一个候选",
    "help.prompt.take": "补全 : 之后的候选",
    "help.mouse.drag": "拖动",
    "help.mouse.mark": "标出区间",
    "help.mouse.right": "右键拖动、Alt+拖动",
    "help.mouse.zoom_range": "缩放到区间",
    "help.mouse.click": "单击、双击",
    "help.mouse.select": "选中、适配",
    "help.mouse.wheel": "滚轮、Shift、Ctrl",
    "help.mouse.scroll": "行、平移、在指针处缩放",
    "help.mouse.ruler": "时间轴、缩略图",
    "help.mouse.pan": "拖动平移，单击跳转",
    "help.picture": "不开终端，把屏幕存为图片（截图，picture、screenshot）；{press[yank_view]} 复制打开位置",
    "help.language": '语言（language）；写入设置文件则每次有效：language = "en"',
    "help.mouse.gutter": "单击左栏",
    "help.mouse.fold": "折叠或展开",
    "help.words": (
        "┃ 近垂直连线：Host 一下发，设备就开始执行。╲ 排队：它在其他任务之后等待。\n红色为饥饿下发：空闲的设备"
        "为它等了 10 µs 或更久；其总和为损失时间。\n超前量：Host 比设备超前多少，落后时从顶部向下画。队列深度"
        "：在途的下发数。\n条形图：· 第一个 kernel 之前 █ 计算 ▒ 未掩盖通信 ╱ 空闲。空泡：设备空闲的一段。"
    ),
}
