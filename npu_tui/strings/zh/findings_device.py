"""The texts of findings about kernels, copies and collectives: titles, details, evidence."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "finding.straggler.title.one": ("rank {ranks:and} 是慢卡，{total:time} 中本卡等它 {gain:time}（{share:share}）"),
    "finding.straggler.title.many": ("rank {ranks:and} 是慢卡，{total:time} 中本卡等它们 {gain:time}（{share:share}）"),
    "finding.straggler.title.wandering": (
        "每次迟到的卡不同（rank {ranks:and}），{total:time} 中本卡等待 {gain:time}（{share:share}）"
    ),
    "finding.straggler.title.ring": (
        "{total:time} 中本卡等相邻的 rank {ranks:and} {gain:time}（{share:share}）；从本卡看不到真正的慢卡"
    ),
    "finding.straggler.worst": (
        "在 {name} 中，{others} 在 {there:moment} 前已到；rank {rank} 晚到 {excess:time}（Notify_Wait {wait:time}）。"
    ),
    "finding.straggler.case": "{name}（{excess:change}）",
    "finding.straggler.each": "等待：{rows:and}。",
    "finding.straggler.of_rank": "rank {rank} {time:time}（{count:count} 次集合通信）",
    "finding.straggler.ring": "RING 只能看到相邻的卡：环上任何一张卡迟到，相邻的卡也会迟到。",
    "finding.straggler.again": "在 {cases:and} 中也是最后到达。",
    "finding.straggler.fill": (
        "每个 step 的首次接收要等流水线填充，合计 {time:time}：这部分仍会存在，增加 micro-batch 数可降低其占比。"
    ),
    "finding.straggler.transfers": (
        "最后一张卡到达后，传输耗时 {time:time}（{speed}），因此调整 bucket 大小、掩盖和 HCCL 参数都没有用。"
    ),
    "finding.straggler.steps": "{all:count} 个 step 中出现 {seen} 次。",
    "finding.straggler.on_disk": "rank {rank} 的 profile 就在旁边：打开它。",
    "finding.straggler.not_on_disk": "rank {rank} 的 profile 不在磁盘上。",
    "finding.straggler.place": "其他卡都为 rank {rank} 等了 {excess:time}；到达时间：{arrivals:list}",
    "finding.straggler.arrival": "r{rank} {after:change}",
    "finding.straggler.verdict.one": (
        "通信，不在本卡：{gain:time}（{share:share}）只是在等 rank {ranks:and}。传输本身耗时 {transfer:time}。"
    ),
    "finding.straggler.verdict.many": (
        "通信，不在本卡：{gain:time}（{share:share}）是在等 rank {ranks:and}。传输本身耗时 {transfer:time}。"
    ),
    "finding.straggler.verdict.wandering": (
        "通信，不在本卡：{gain:time}（{share:share}）是在等待，每次等的卡不同。传输本身耗时 {transfer:time}。"
    ),
    "finding.straggler.verdict.ring": (
        "通信，不在本卡：{gain:time}（{share:share}）是在等从本卡看不到的卡。传输本身耗时 {transfer:time}。"
    ),
    "finding.exposed.title": "未掩盖通信 {time:time}（{share:share}）",
    "finding.exposed.detail": (
        "{count:count} 次集合通信：设备时间中有 {time:time}（{share:share}）只在通信；计算掩盖了全部通信的 "
        "{hidden:share}。"
    ),
    "finding.exposed.more": "通信（{communication:time}）多于计算（{computing:time}）。",
    "finding.exposed.late": "其中 {waited:time} 是等待 rank {ranks:and}：先解决它，做掩盖没有用。",
    "finding.exposed.waited": "其中 {waited:time} 是等待：这些集合通信比同样大小的其他通信长得多。",
    "finding.exposed.unknown": "没有 Plane 任务（Level1 或以上），无法区分等待慢卡与传输。",
    "finding.exposed.place": "其中 {time:time} 未掩盖",
    "finding.exposed.verdict_rest": "通信：另有 {time:time}（{share:share}）未掩盖。",
    "finding.exposed.verdict_waited": "通信：{time:time}（{share:share}）是在等 Level0 未指明的卡。",
    "finding.exposed.verdict": "通信：{time:time}（{share:share}）未掩盖。",
    "finding.long.title": "{name} 耗时 {time:time}（{share:share}）",
    "finding.long.detail": "{name} 耗时 {time:time}，占设备时间的 {share:share}。",
    "finding.long.timing": (
        "在其主 Plane 上：等待 {wait:time}，传输 {transit:time}（全部 Plane {speed}），空闲 {idle:time}。"
    ),
    "finding.long.not_bandwidth": "带宽不是问题：传输只占十分之一或更少。",
    "finding.long.peer": "最长的等待为 {wait:time}，等的是 rank {rank}。可节省的时间包括所有等待迟到卡的集合通信。",
    "finding.long.place": "{time:time}",
    "finding.link.title": "{first}",
    "finding.link.titles": "{count:count} 个因素拖慢通信链路",
    "finding.link.sentence": "{text}。",
    "finding.link.unaligned": "{count:count} 次集合通信的数据未按 {bytes} 字节对齐（占传输时间的 {share:share}）",
    "finding.link.small": "{share:share} 的 {kind} 包小于 {most:g} MB",
    "finding.link.contention": "{count:count} 次 SDMA 集合通信在矩阵乘期间低于 {speed:g} GB/s",
    "finding.link.again": "{count:count} 次集合通信在 RDMA 中耗时数秒：发生了重传",
    "finding.share.title": "{kind}占计算时间的 {share:share}",
    "finding.share.part": "{kind}占计算时间的 {share:share}（超过 {most:percent}）：{types:and}。",
    "finding.share.launched": "由 {operations:and} 下发。",
    "finding.share.lines": "主要位于 {lines:and}。",
    "finding.share.cube": "卷积和矩阵乘",
    "finding.share.copy": "格式转换和拷贝",
    "finding.share.layout": "转置和 reshape",
    "finding.share.softmax": "softmax 算子",
    "finding.dominant.title": "{name} 占计算时间的 {share:share}",
    "finding.dominant.detail": (
        "{count:count} 个 {name} 类型的 kernel：合计 {time:time}（{share:share}），平均 {average:time}，最长 "
        "{longest:time}。"
    ),
    "finding.dominant.place": "该类型中最长的之一",
    "finding.bound.cpu_title": "{count:count} 个 kernel 在 AI CPU 上执行：设备时间 {time:time}",
    "finding.bound.cpu": (
        "AI CPU 上有 {count:count} 个 {least:limit} 或以上的 kernel，合计 {time:time}：{names:and}。"
    ),
    "finding.bound.dynamic_title": "全部 {count:count} 个 kernel 都按动态 shape 编译",
    "finding.bound.dynamic": (
        "{count:count} 个 kernel 中没有一个是静态 shape（kernel_details.csv 的 OP State），因此没有编译成图。"
    ),
    "finding.bound.place": "在 AI CPU 上执行",
    "finding.outlier.title": "{count:count} 次调用异常偏慢，首先是 {name}：比中位数多 {time:time}",
    "finding.outlier.detail": "同名调用之中：{kernels:and}。",
    "finding.outlier.kernel": "{name} {count:count}×，最长 {longest:time}，中位数 {median:time}",
    "finding.outlier.place": "该算子的中位数为 {median:time}",
    "finding.event.title": "设备空闲时 stream 在等待 event：{time:time}（{share:share}）",
    "finding.event.detail": "Host 已按时下发，但 stream 等待其他 stream 的时间占设备时间的 {share:share}。主要是：{rows:and}。",
    "finding.event.row": "{what} {time:time}",
    "finding.event.unknown": "等待无法判定的 event",
    "finding.event.record": "等待 {stream} 的 event",
    "finding.event.after": "等待 {stream} 在 {name} 之后记录的 event",
    "finding.dtype.title": "{share:share} 的矩阵计算是 32 位浮点",
    "finding.dtype.detail": "{time:time} 的矩阵计算中有 {share:share} 读取 FLOAT：{names:and}。",
    "finding.bandwidth.title": "{share:share} 的 kernel 时间在等内存",
    "finding.bandwidth.detail": "{time:time}（{share:share}）的 kernel 几乎全部时间在读内存（MTE2）：{names:and}。",
    "finding.affinity.title": "可改用 {api}{more}",
    "finding.affinity.more": "，另有 {count:count} 项",
    "finding.affinity.api": "下列算子序列各可由一次调用代替：{runs:and}。",
    "finding.affinity.kernel": "下列 kernel 序列各可由一个算子代替：{runs:and}。",
    "finding.affinity.run": "{words} {count:count} 次，设备 {time:time} → {api}",
    "finding.affinity.lines": "调用位置：{lines:and}。",
    "finding.affinity.place": "可改用 {api}",
    "finding.copy.title": "拷贝占用设备 {time:time}（{share:share}）",
    "finding.copy.detail": ("{count:count} 次拷贝，合计 {time:time}，其中 {exposed:time} 没有其他工作。"),
    "finding.copy.blocking": "Host 等待其中 {count:count} 次拷贝结束。",
    "finding.copy.moved": "按方向：{ways:and}。",
    "finding.copy.way": "{way} {count:count} 次共 {size:memory}，{speed:.1f} GB/s",
    "finding.copy.place": "Host 与设备之间的拷贝",
    "finding.frequency.title": "AI Core 比满频低 {drop:share}",
    "finding.frequency.detail": "{all:count} 个 kernel 中有 {count:count} 个降频执行，平均低 {drop:share}。",
    "finding.frequency.place": "低于满频",
}
