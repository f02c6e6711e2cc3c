"""The texts of going from place to place."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "same.of": "第 {n:count} 个 {name}，共 {count:count} 个：{length}，中位数 {median}，不短于其中的 {percentile} %",
    "same.last": "没有更多 {name}；共 {count:count} 个",
    "bubble.of": "第 {n:count} 个空泡，共 {count:count} 个：{length}",
    "bubble.none": "这个 trace 中没有已知的空泡",
    "bubble.last": "没有更多空泡",
    "bubble.first": "此前没有空泡",
    "sibling.of": "一起下发的第 {n:count} 个，共 {count:count} 个：{name}",
    "sibling.none": "没有与它一起下发的其他任务",
    "sibling.last": "一起下发的 {count:count} 个中没有更多",
    "step.of": "{name}，第 {n:count} 个，共 {count:count} 个：{length}",
    "step.none": "这个 trace 中没有 ProfilerStep",
    "step.last": "这是最后一个 step",
    "step.first": "这是第一个 step",
    "chain.left": "已恢复显示所有行",
    "align.one_rank": "只有一张卡，无需对齐",
    "align.no_base": "请先选中片段，并用 :base 设为基准",
    "align.no_slice": "请先选中另一张卡的片段",
    "align.same_rank": "基准就在这张卡上：请选中另一张卡的片段",
    "align.base": (
        "{rank} 的 {name} 为基准；选中另一张卡的片段，{press[align_start]} 对齐起点，{press[align_end]} 对齐终点"
    ),
    "align.start": "{rank} 移动了 {by}：该片段与 {base} 的基准同时开始；偏移 {offset}",
    "align.end": "{rank} 移动了 {by}：该片段与 {base} 的基准同时结束；偏移 {offset}",
    "rank.of": "{label}，第 {n:count} 张，共 {count:count} 张",
    "rank.first": "这是第一张卡",
    "rank.last": "这是最后一张卡",
}
