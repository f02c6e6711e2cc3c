"""The texts about rows: pinned, hidden, idle."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "lane.steps": "Steps",
    "lane.overlap.computing": "计算",
    "lane.overlap.all": "通信",
    "lane.overlap.exposed": "未掩盖通信",
    "lane.overlap.free": "空闲",
    "lane.short": (
        "未掩盖通信=未掩盖|任务队列=队列|队列深度=深度|内存 已分配=内存|Communication=Comm| Comm=|CANN =C:|"
        "Ascend Hardware=Hardware|Overlap Analysis=Overlap|Thread =T|Stream =Str |Group =Grp |AI Core Freq=AI Freq|AI Freq=Freq|Scope Layer=Scope|"
        "已预留未分配=未用|已预留=预留|Stars Soc Info=SoC Info|HBM =|LLC =|/Throughput=|/Hit Rate= hit|/Read=R| Read=R|/Write=W| Write=W"
    ),
    "lane.main": "主线程",
    "lane.backward": "反向",
    "lane.queue": "任务队列",
    "lane.compute": "计算 s{number}",
    "lane.communication": "通信 s{number}",
    "lane.copy": "拷贝 s{number}",
    "lane.workers": "{count:count} 个 HCCL 线程",
    "rows.hidden": "隐藏 {count:count} 行",
    "rows.pinned": "{name} 已置顶；按 {press[pin]} 放回原处",
    "rows.unpinned": "{name} 已放回原处",
    "rows.no_lane": "光标不在泳道上",
    "rows.hide": "{name} 已隐藏；在显示隐藏数的行上按 {press[fold]}，或按 {press[show_hidden]}，可恢复",
    "rows.hide_none": "只能隐藏泳道和曲线；按 {press[fold]} 折叠层",
    "rows.shown": "已恢复 {count:count} 行",
    "rows.shown_none": "没有隐藏的内容",
    "rows.idle_away": "不显示视图内没有片段的行",
    "rows.idle_shown": "显示所有行",
}
