"""The texts of a table of several profiles."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "sweep.more": "更多 profile：全部与第一个比较，输出 step、时延和吞吐的一张表",
    "sweep.label": "按顺序给各 PROFILE 命名；其中的数字（如 bs=32）是 batch size。只有两个 profile 时也输出这张表",
    "sweep.bad_label": "{profiles} 个 profile 却有 {count:个名称|个名称}",
    "sweep.title": "step、时延和吞吐",
    "sweep.profile": "profile",
    "sweep.steps": "step 数",
    "sweep.step": "step 中位数",
    "sweep.change": "与第一个相比",
    "sweep.share": "占比",
    "sweep.verdict": "结论",
    "sweep.computing": "计算",
    "sweep.exposed": "未掩盖通信",
    "sweep.idle": "空闲",
    "sweep.outside": "首尾",
    "sweep.steps_per_s": "step/秒",
    "sweep.samples_per_s": "样本/秒",
    "sweep.no_batch": "每秒样本数需要每个 profile 的 batch size：--label bs=32 --label bs=64",
    "sweep.knee": "拐点：{label} 每秒 {rate} 个样本，为最高值（{best}）的 {share:share}，每个 step {step:time}",
    "sweep.keys": "{press[row_up]} {press[row_down]} 选择，{press[open_profile]} 与第一份对比打开，{press[leave_list]} 退出",
    "sweep.ended": "其退出码为 {code}",
    "sweep.reading": "正在读取 {at}/{count:count}：{path}",
}
