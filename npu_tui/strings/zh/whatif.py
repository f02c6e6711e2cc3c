"""The texts of ``npu-tui whatif`` and of its prompt."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "whatif.description": "改变某些条件后重放这次运行：一个 step 会是多长",
    "whatif.epilog": (
        "CHANGE 为以下之一：'line main.py:354 x0'、'kernel MatMulV2 x0.5'、'op aten::add x0'、'rank 5 in time"
        "'、'ranks in time'、'no .item()'、'no sync'。x0 去掉其全部时间，x0.5 去掉一半。多个改变依次生效。"
    ),
    "whatif.changes": "要改变什么，如 'rank 5 in time'",
    "whatif.format": "text（默认）或 json",
    "whatif.unknown": (
        "{text} 不是一种改变；请写 'line main.py:354 x0'、'kernel MatMulV2 x0.5'、'op aten::add x0'、'rank 5 "
        "in time' 或 'no .item()'"
    ),
    "whatif.nothing": "这次运行中没有符合 {text} 的内容",
    "whatif.no_model": "这次运行无法重放：文件中没有下发指向设备",
    "whatif.not_close": "这次运行无法重放：模型的时长偏差为 {error:share}",
    "whatif.replayed": "重放 {replayed:time}，实际 {recorded:time}（偏差 {error:share}），{steps:count} 个 step",
    "whatif.head": "step {before:time} → {after:time}：缩短 {gain:time}（{share:share}）",
    "whatif.head.longer": "step {before:time} → {after:time}：变长 {gain:time}（{share:share}）",
    "whatif.head.same": "step {before:time}：没有收益，还有别的任务一样长",
    "whatif.column.change": "改变",
    "whatif.column.matches": "匹配",
    "whatif.column.alone": "单独",
    "whatif.column.gain": "按此顺序",
    "whatif.no_gain": "无",
    "whatif.column.after": "之后的 step",
    "whatif.recorded": "实际",
    "whatif.predicted": "预测",
    "whatif.scale": "{length:time} 内的忙碌情况，一行为实际，一行为预测",
    "whatif.ghost": "预测",
    "whatif.remedies": "哪些改动能缩短 step（各自单独计算）",
    "whatif.no_remedies": "改动代码行、等待、rank 或算子都不能缩短 step",
    "whatif.prompt": "假设： ",
    "whatif.ask": "如果…？line FILE:LINE x0、kernel NAME x0.5、rank N in time、no .item()；留空则列出有收益的改动",
}
