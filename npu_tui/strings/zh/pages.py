"""The texts of reports as Markdown and HTML."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "report.about": (
        "{kind}，rank {rank}，设备 {device}，profiler level {level}，step 数：{steps}；{slices} 个片段，"
        "{links} 条连线，{span}"
    ),
    "page.head": "{severity} · {cls} · {title}",
    "page.gain": "最多节省 {gain}",
    "page.hidden": "[已隐藏：设备用于计算的时间太少，暂不重要]",
    "page.brief": "同样成立，但不必先处理：",
    "page.do": "处理建议：",
    "page.sources": "依据：{sources}",
    "page.confidence": "置信度 {confidence}",
    "page.place": "{start} 到 {end}",
    "page.lane": "泳道 {lane}",
    "table.overlap": "设备时间",
    "table.findings": "诊断",
    "table.lines": "损失时间最多的代码行",
    "table.steps": "Step",
    "table.operators": "算子",
    "table.communication": "通信",
    "table.again": "如何重新采集",
    "table.total": "合计",
    "table.timeline": "时间线",
    "column.part": "部分",
    "column.time": "时间",
    "column.share": "占比",
    "column.lost": "损失",
    "column.launches": "下发次数",
    "column.place": "位置",
    "column.step": "step",
    "column.length": "时长",
    "column.computing": "计算",
    "column.exposed": "未掩盖通信",
    "column.free": "空闲",
    "column.stage": "阶段",
    "column.type": "类型",
    "column.core": "核",
    "column.count": "次数",
    "column.total": "总计",
    "column.average": "平均",
    "column.longest": "最长",
    "column.name": "名称",
    "column.elapsed": "耗时",
    "column.waited": "最长等待",
    "column.peer": "等待的 rank",
    "column.size": "大小",
    "column.bandwidth": "带宽",
    "column.number": "#",
    "column.severity": "严重度",
    "column.class": "类别",
    "column.gain": "最多节省",
    "column.finding": "诊断",
    "again.level": (
        "在 _ExperimentalConfig 中设置 profiler_level=ProfilerLevel.Level1：之后会记录 CANN 调用、集合通信的"
        "任务以及它们等待的 rank。"
    ),
    "again.stack": "设置 with_stack=True：可得到下发的代码行；Host 会变慢，请与不开启时对比。",
    "again.steps": "使用 schedule，并在每次迭代调用一次 prof.step()：每个 step 都有自己的数据。",
    "again.directory": (
        "把 trace_view.json 留在 *_ascend_pt 目录中：rank、level 和 kernel 的核类型记录在旁边的文件里。"
    ),
    "again.few": "warm-up 之后至少采集 3 个 active step，而不是 {steps} 个：step 之间的波动才能说明哪些只是偶然。",
    "again.overhead": (
        "再用最少的内容采集一次（Level0、不开栈、不开 l2_cache）：采集会放大 Host 时间，那时消失的就是采集造成的。"
    ),
    "again.compare": "修改前用 npu-tui check PATH --write-baseline FILE，修改后用 --baseline FILE，可知是否有效。",
    "severity.high": "高",
    "severity.medium": "中",
    "severity.low": "低",
    "severity.info": "提示",
    "confidence.high": "高",
    "confidence.medium": "中",
    "confidence.low": "低",
    "source.kind.trace_view_json": "trace_view.json",
    "source.kind.msprof_json": "msprof JSON",
    "source.kind.profile_directory": "PyTorch profile",
    "source.kind.database": "profiler 数据库",
    "source.kind.chrome_trace": "Chrome trace",
}
