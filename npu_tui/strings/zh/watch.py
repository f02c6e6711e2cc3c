"""The texts of ``npu-tui watch``."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "watch.description": "监视目录，出现新的 profile 且写完后各打印一行：结论，以及与上一个（同 rank）profile 的 step 对比。",
    "watch.epilog": "文件若干秒未变化且结尾完整即视为写完。回车打开最新的 profile，Ctrl+C 结束。",
    "watch.path": "要监视的目录；不给则为当前目录",
    "watch.settle": "多少秒未变化视为写完（默认 3）",
    "watch.count": "报告多少个 profile 后结束",
    "watch.all": "也报告已有的 profile",
    "watch.bad_number": "{option} 需要不小于 1 的整数",
    "watch.no_folder": "{path}：没有这个目录",
    "watch.begun": "正在监视 {path}（已有 {count:count} 个 profile）",
    "watch.enter": "{begun}；回车打开最新的，Ctrl+C 结束",
    "watch.none": "还没有 profile",
    "watch.writing": "正在写入：{name}，目前 {size} MB",
    "watch.no_verdict": "没有突出的问题",
    "watch.rank": "rank {rank}",
    "watch.slower": "step {change:change}，变慢",
    "watch.faster": "step {change:change}，变快",
    "watch.same": "step {change:change}，相同",
    "watch.unsure": "step {change:change}，不确定",
    "watch.incomparable": "与上一个无法比较",
}
