"""The texts of findings: titles for a table row, details, evidence, advice."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "finding.between": "在 {start:time} 到 {end:time} 之间",
    "finding.place": "{place} {function}()",
    "finding.lines": "{file}:{lines:and}",
    "finding.timed": "{name} {time:time}",
    "finding.counted": "{name} {count:count}",
    "finding.steps.every": "每个 step 都出现。",
    "finding.steps.one": "只出现在 step {step}（{first}–{last}）。",
    "finding.steps.some": "出现在 {all} 个 step 中的 {count} 个：{steps:and}。",
    "finding.verdict.warm_up": "step {step} 视为预热，不计入：耗时 {time:time}，其余 step 为 {usual:time}。",
    "finding.outlook.rest": "解决第 1 条之后还剩 {gain:time}。",
    "finding.outlook.rest_many": "解决第 1–{above} 条之后还剩 {gain:time}。",
    "finding.outlook.step": "即每个 step {gain:time}。",
    "finding.outlook.next": "之后一个 step 约为 {step:time}，首要问题变为 {following}。",
    "finding.outlook.last": "之后一个 step 约为 {step:time}。",
    "finding.outlook.part": "包含在 {whole} 中。",
    "finding.outlook.idle": "单独解决它没有收益：同一时间还有别的任务一样长。",
    "finding.outlook.intervals": "这次运行无法重放，因此收益按区间长度计算。",
    "finding.unknown": "未知",
    "finding.nothing": "结束",
    "finding.rank": "rank {rank}",
    "finding.ranks": "rank {ranks:and}",
    "finding.speed": "带宽 {speed:speed}",
    "finding.speeds": "带宽 {low:speed} 到 {high:speed}",
    "finding.device": "设备 {device}：{text}",
    "finding.class.dispatch": "下发",
    "finding.class.compute": "计算",
    "finding.class.communication": "通信",
    "finding.class.memory": "内存",
    "finding.class.config": "配置",
    "finding.class.data": "数据",
    "finding.bound.dispatch": "下发",
    "finding.bound.compute": "计算",
    "finding.bound.communication": "通信",
    "finding.stage.python": "Python",
    "finding.stage.cann": "CANN",
    "finding.stage.both": "Python 和 CANN",
    "finding.stage.host": "Host",
    "finding.cause.sync": "Host 等待设备",
    "finding.cause.communication": "耗时长的集合通信或 Event 等待",
    "finding.cause.copy": "耗时长的拷贝",
    "finding.cause.aicpu": "AI CPU 算子",
    "finding.cause.compile": "算子编译",
    "finding.cause.memory": "申请或释放设备内存",
    "finding.cause.gc": "Python 垃圾回收",
    "finding.cause.dataloader": "取数据",
    "finding.cause.python": "两个算子之间的 Python",
    "finding.verdict.then": "其次，{line}",
    "finding.verdict.line": "{what}：{title}",
    "finding.verdict.healthy": "没有明显瓶颈：设备在 {total:time} 中有 {compute:share} 用于计算，{free:share} 空闲。",
    "finding.verdict.no_device": "这个 trace 没有设备时间，无法判断。",
    "finding.verdict.title": "任务受限于{bound}",
    "finding.verdict.detail": (
        "设备时间中，等待下发 {late:time}（{late_share:share}），未掩盖通信 {exposed:time}（"
        "{exposed_share:share}），计算 {compute:time}（{compute_share:share}）。"
    ),
    "finding.util.title": "设备 {compute:share} 的时间在计算，{busy:share} 的时间在工作",
    "finding.util.fine": (
        "在 {total:time} 中，设备 {compute:share} 的时间在计算，{busy:share} 的时间在工作：kernel 之外所剩不多。"
    ),
    "finding.util.room": (
        "在 {total:time} 中，设备 {compute:share} 的时间在计算，{busy:share} 的时间在工作：kernel 之间还有空间。"
    ),
    "finding.util.poor": (
        "在 {total:time} 中，设备 {compute:share} 的时间在计算，{busy:share} 的时间在工作：大部分时间没有用于计算。"
    ),
    "finding.free.title": "设备空闲 {time:time}，占其时间的 {share:share}",
    "finding.free.detail": "共 {count:count} 段空闲，合计 {time:time}。{cause}",
    "finding.free.split": "其中 {late:share} 尚未下发（Host 晚），{side:share} 已经下发（设备启动慢）。",
    "finding.free.unknown": "没有 HostToDevice 连线，无法判断是否 Host 晚；Free 包含拷贝和 Event 等待。",
    "finding.free.place": "空闲 {time:time}，直到 {after}",
    "finding.vertical.title": "{who} 下发太慢：NPU {where}损失 {lost:time}",
    "finding.vertical.starved": "{links} 次下发中有 {starved} 次到达时设备空闲。",
    "finding.vertical.stage.python": (
        "在 Host 下发晚的时间里，Dequeue 线程有 {idle:share} 空闲，因此慢的是 Python 级（一级流水），不是 CANN 级。"
    ),
    "finding.vertical.stage.cann": (
        "在 Host 下发晚的时间里，Dequeue 线程只有 {idle:share} 空闲，因此慢的是 CANN 级（二级流水），不是 Python 级。"
    ),
    "finding.vertical.call": "{name} {time:time}（{count:count} 次）",
    "finding.vertical.calls": "设备等待时，Host 在执行 {calls:and}。",
    "finding.vertical.line": "{line} {lost:time}",
    "finding.vertical.lines": "主要代码行：{lines:and}。",
    "finding.vertical.site": "{place} 反复等待设备：为 {device:time} 的 NPU 工作损失 {lost:time}。",
    "finding.vertical.side": "这段时间另有 {time:time} 是 Device 侧间隙（下发及时）。",
    "finding.vertical.range": "饥饿下发",
    "finding.vertical.range_note": "损失 {lost:time}，{links} 次下发中 {near} 次近垂直，设备空闲 {idle:share}",
    "finding.vertical.waited": "空闲的设备为这次下发等了 {lost:time}",
    "finding.vertical.verdict": (
        "下发：{who} 下发太慢，{where}损失 {lost:time}（设备空闲 {idle:share}，{links} 次下发中 {starved} 次饥饿）。"
    ),
    "finding.vertical.verdict_many": "下发：{who} 下发太慢，损失 {lost:time}（{links} 次下发中 {starved} 次饥饿）。",
    "finding.caveat.profiled": "注意：采集时开启了 {settings:and}，会拖慢 Host；请关闭后再确认。",
    "finding.stage.title.python": "Python 级填充任务队列太慢：{time:time}",
    "finding.stage.title.cann": "CANN 级处理任务队列太慢：{time:time}",
    "finding.stage.detail.python": "设备等待下发的 {late:time} 中，Dequeue 线程有 {idle:share} 无事可做。",
    "finding.stage.detail.cann": (
        "设备等待下发的 {late:time} 中，Dequeue 线程只有 {idle:share} 空闲：时间花在它自己的调用上。"
    ),
    "finding.stage.title.both": "Python 和 CANN 两级下发都跟不上设备：{time:time}",
    "finding.stage.detail.both": (
        "设备等待下发的 {late:time} 中，dequeue 线程有 {idle:share} 的时间空闲，约各占一半，两级都在耗时。"
    ),
    "finding.stage.place": "{time:time} 没有下发",
    "finding.interrupt.title": "设备断流 {count:count} 次，共 {time:time}",
    "finding.interrupt.detail": (
        "{count:count} 次 100 µs 或更久没有在途下发；其中 {filled} 次切断了已填满的队列。原因：{causes:and}。"
    ),
    "finding.interrupt.cause": "{cause} {count} 次（{time:time}）",
    "finding.interrupt.place": "在 {before} 之后，直到 {after}",
    "finding.sync.title": "Host 同步使设备空闲：{lost:time}",
    "finding.sync.title_lines": "{lines} 与 NPU 同步：{tasks:count} 个任务（{device:time}）损失 {lost:time}",
    "finding.sync.detail": (
        "{count:count} 次 Host 同步，其中 {long} 次达到 {least:limit}，合计 {blocked:time}；最长 "
        "{longest:time}，{what}。"
    ),
    "finding.sync.site": (
        "{lines}（{function}()）一边下发一边取回结果：{tasks:count} 个任务的设备耗时为 {device:time}，却让设"
        "备空闲 {lost:time}。"
    ),
    "finding.sync.blocking": "{share:share} 的下发之后立即同步，与 ASCEND_LAUNCH_BLOCKING=1 的表现相同。",
    "finding.sync.place": "Host 被阻塞，{what}",
    "finding.sync.waited.nothing": "直到设备完成",
    "finding.sync.waited.compute": "直到 {name} 完成",
    "finding.sync.waited.communication": "直到 {name} 完成",
    "finding.sync.waited.copy": "直到拷贝 {name} 完成",
    "finding.compile.title": "{count:count} 次算子编译：Host {time:time}，设备空闲 {starved:time}",
    "finding.compile.detail": (
        "训练过程中编译算子 {count:count} 次：Host 耗时 {time:time}（相当于设备时间的 {share:share}）。其中设"
        "备空闲等待 {starved:time}，其余被其他工作掩盖。"
    ),
    "finding.compile.place": "下发前先编译算子",
    "finding.start.title": "step 开始到第一个 kernel 相隔 {time:time}（{where}）",
    "finding.start.detail": (
        "一个 step 为 {step:time}，前 {time:time}（{share:share}）设备没有任务；Free 不包含这段时间。"
    ),
    "finding.start.parts": "其中包括 {parts:and}。",
    "finding.start.part": "{name} {time:time}",
    "finding.start.loader": "dataloader",
    "finding.start.unrecorded": "没有记录的 {time:time}",
    "finding.start.waited": "其中 Host 被阻塞 {time:time}；它等待的拷贝耗时 {copy:time}。",
    "finding.start.nothing": "没有记录",
    "finding.start.name": "step 起始",
    "finding.start.place": "step 的第一个 kernel 之前 {time:time}",
    "finding.start.verdict": "下发：第一个 kernel 之前经过了 {time:time}（占 step 的 {share:share}）。",
    "finding.small.title": "{share:share} 的 kernel 短于 {least:limit}",
    "finding.small.detail": (
        "{all:count} 个 kernel 中有 {count:count} 个，中位数 {median:time}；Host 平均每 {interval:time} 下发"
        "一个，设备为它们等待 {lost:time}。最多的是 {types:and}。"
    ),
    "finding.small.place": "比下发它还短",
    "finding.optimizer.title": "优化器 {name} 未融合：每个 step 占用 Host {time:time}",
    "finding.optimizer.detail": (
        "Optimizer.step#{name}.step 执行 {count:count} 次，Host 耗时 {time:time}；设备为它的下发等待 {lost:time}。"
    ),
    "finding.optimizer.place": "NpuFused{name} 只需几次下发",
    "finding.straggler.title.one": (
        "rank {ranks:and} 是慢卡，本卡在等它：最多节省 {gain:time}，共 {total:time}（{share:share}）"
    ),
    "finding.straggler.title.many": (
        "rank {ranks:and} 是慢卡，本卡在等它们：最多节省 {gain:time}，共 {total:time}（{share:share}）"
    ),
    "finding.straggler.title.wandering": (
        "每次迟到的卡不同（rank {ranks:and}），本卡在等：最多节省 {gain:time}，共 {total:time}（{share:share}）"
    ),
    "finding.straggler.title.ring": (
        "本卡在等相邻的 rank {ranks:and}：最多节省 {gain:time}，共 {total:time}（{share:share}）；从本卡看不"
        "到真正的慢卡"
    ),
    "finding.straggler.worst": (
        "在 {name} 中，{others} 在 {there:moment} 前已到；rank {rank} 晚到 {excess:time}（Notify_Wait {wait:time}）。"
    ),
    "finding.straggler.case": "{name}（{excess:change}）",
    "finding.straggler.each": "等待：{rows:and}。",
    "finding.straggler.of_rank": "rank {rank} {time:time}（{count:count} 次集合通信）",
    "finding.straggler.ring": "RING 只能看到相邻的卡：环上任何一张卡迟到，相邻的卡也会迟到。",
    "finding.straggler.again": "在 {cases:and} 中也是最后到达。",
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
    "finding.long.peer": "最长的等待为 {wait:time}，等的是 rank {rank}。",
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
    "finding.outlier.kernel": "{name} {count}×，最长 {longest:time}，中位数 {median:time}",
    "finding.outlier.place": "该算子的中位数为 {median:time}",
    "finding.pause.title": "Host 有 {count:count} 次无记录的停顿：{time:time}",
    "finding.pause.verdict": "下发：Host 有 {count:count} 次无记录的停顿，损失 {time:time}",
    "finding.pause.detail": (
        "{count:count} 次停顿占设备等待 Host 时间的 {share:share}，期间没有任何算子、调用或 Python 帧开始。绑"
        "核和下发参数对此无效。"
    ),
    "finding.pause.place": "{time:time} 内无记录",
    "finding.dtype.title": "{share:share} 的矩阵计算是 32 位浮点",
    "finding.dtype.detail": "{time:time} 的矩阵计算中有 {share:share} 读取 FLOAT：{names:and}。",
    "finding.bandwidth.title": "{share:share} 的 kernel 时间在等内存",
    "finding.bandwidth.detail": "{time:time}（{share:share}）的 kernel 几乎全部时间在读内存（MTE2）：{names:and}。",
    "finding.affinity.title": "可改用 {api}{more}",
    "finding.affinity.more": "，另有 {count} 项",
    "finding.affinity.api": "下列算子序列各可由一次调用代替：{runs:and}。",
    "finding.affinity.kernel": "下列 kernel 序列各可由一个算子代替：{runs:and}。",
    "finding.affinity.run": "{words} {count} 次，设备 {time:time} → {api}",
    "finding.affinity.lines": "调用位置：{lines:and}。",
    "finding.affinity.place": "可改用 {api}",
    "finding.loader.title": "取一批数据最长 {time:time}；设备等待 {waits:time}",
    "finding.loader.detail": (
        "{count:count} 次取数据偏慢，平均 {mean:time}，最长 {longest:time}；其间设备空闲 {idle:time}。"
    ),
    "finding.loader.place": "取一批数据",
    "finding.loader.verdict": "数据：每个 step 设备为下一批数据等待 {waits:time}。",
    "finding.copy.title": "拷贝占用设备 {time:time}（{share:share}）",
    "finding.copy.detail": (
        "{count:count} 次拷贝，合计 {time:time}，其中 {exposed:time} 没有其他工作；{blocking} 次调用会阻塞 Host。"
    ),
    "finding.copy.place": "Host 与设备之间的拷贝",
    "finding.allocation.title": "内存调用耗时 {time:time}；设备空闲 {lost:time}",
    "finding.allocation.detail": "{calls:and}；期间设备断流 {drains:count} 次，共 {lost:time}。",
    "finding.allocation.call": "{name} {count} 次 {time:time}",
    "finding.allocation.place": "申请或释放设备内存",
    "finding.pressure.title": "预留 {reserved:.1f} GB，是已分配的 {ratio:.2f} 倍",
    "finding.pressure.detail": "峰值时分配器为 {allocated:.1f} GB 的张量占用 {reserved:.1f} GB，其余是碎片。",
    "finding.pressure.full_title": "内存接近用满：{reserved:.1f} GB，约 {capacity:.0f} GB",
    "finding.pressure.full": (
        "峰值时进程占用 {reserved:.1f} GB。{capacity:.0f} GB 的设备已所剩不多：申请内存可能失败，或在 step 中"
        "反复释放再申请。"
    ),
    "finding.gc.title": "垃圾回收 {count:count} 次，{time:time}",
    "finding.gc.detail": "{count:count} 次垃圾回收，合计 {time:time}；其间设备空闲 {idle:time}。",
    "finding.gc.place": "垃圾回收",
    "finding.gc.suspect_title": "{count:count} 段长时间没有任何调用（{time:time}）：是否垃圾回收？",
    "finding.gc.suspect": (
        "有 {count:count} 次设备空闲超过 {least:limit}，而 Host 没有调用 CANN。通常是 Python 垃圾回收。"
    ),
    "finding.gc.suspect_place": "没有记录到调用",
    "finding.frequency.title": "AI Core 比满频低 {drop:share}",
    "finding.frequency.detail": "{all:count} 个 kernel 中有 {count:count} 个降频执行，平均低 {drop:share}。",
    "finding.frequency.place": "低于满频",
    "finding.environment.title": "环境变量：{first}{more}",
    "finding.environment.detail": "请检查 {names:and}。",
    "finding.environment.queue": (
        "没有 Enqueue 片段：任务队列未开启（TASK_QUEUE_ENABLE=0），每次下发都由 Python 自己完成。"
    ),
    "finding.environment.ASCEND_GLOBAL_LOG_LEVEL": (
        "设置 ASCEND_GLOBAL_LOG_LEVEL=3（仅错误）：其他级别会在下发时写日志。"
    ),
    "finding.environment.set_queue": "设置 TASK_QUEUE_ENABLE=1，内存允许时设为 2：由第二个线程下发。",
    "finding.environment.HCCL_RDMA_TC": "除非网络需要，否则不要设置 HCCL_RDMA_TC。",
    "finding.environment.HCCL_RDMA_SL": "除非网络需要，否则不要设置 HCCL_RDMA_SL。",
    "finding.environment.ACLNN_CACHE_LIMIT": "设置 ACLNN_CACHE_LIMIT=100000，缓存更多 aclnn executor。",
    "finding.environment.HOST_CACHE_CAPACITY": "设置 HOST_CACHE_CAPACITY=20，缓存 Host 侧 tiling 数据。",
    "finding.environment.PYTORCH_NPU_ALLOC_CONF": "设置 PYTORCH_NPU_ALLOC_CONF=expandable_segments:True，减少碎片。",
    "finding.environment.ASCEND_LAUNCH_BLOCKING": "取消 ASCEND_LAUNCH_BLOCKING：它让每次下发都等待完成。",
    "finding.environment.HCCL_ALGO": "取消 HCCL_ALGO，由 HCCL 自行选择算法。",
    "finding.profiler.title": "疑似采集开销：{count:count} 个 kernel 之前约 {gap:about}",
    "finding.profiler.detail": (
        "{all:count} 个及时下发的 kernel 中，有 {count:count} 个在前一个 kernel 结束后 {low:limit} 到 "
        "{high:limit} 才开始，几乎没有更早的：合计 {time:time}，而计算为 {computing:time}。原因很可能是采集而"
        "不是模型，但未经证实。{settings}"
    ),
    "finding.profiler.settings": "采集时开启了 {names:and}。",
    "finding.profiler.name": "kernel 之后的停顿",
    "finding.profiler.place": "下一个 kernel 已经下发，仍停顿 {time:time}",
    "finding.advice.order": "依次处理下发、计算、通信，按各自使 step 损失的时间衡量。",
    "finding.advice.task_queue": (
        "设置 TASK_QUEUE_ENABLE=2，把更多工作移出 Python 线程（内存峰值可能上升；ASCEND_LAUNCH_BLOCKING=1 时无效）。"
    ),
    "finding.advice.binding": "用 CPU_AFFINITY_CONF=1（粗粒度）或 2（细粒度）绑核，并开启 CPU 高性能模式。",
    "finding.advice.fewer_operators": "减少下发：融合算子、foreach 版本、更大的 batch、图模式。",
    "finding.advice.cann_cache": (
        "设置 ACLNN_CACHE_LIMIT=100000 和 HOST_CACHE_CAPACITY=20，减少 CANN 每次下发的准备工作。"
    ),
    "finding.advice.jit_compile": "使用预编译的算子：torch_npu.npu.set_compile_mode(jit_compile=False)。",
    "finding.advice.jit_compile_gain": (
        "使用预编译的算子，torch_npu.npu.set_compile_mode(jit_compile=False)：最多节省 {gain:time}。"
    ),
    "finding.advice.internal_format": (
        "设置 torch_npu.npu.config.allow_internal_format = False，避免需要编译的格式转换。"
    ),
    "finding.advice.bucket_shapes": "限制 shape 的种类：每个新 shape 都要重新编译。",
    "finding.advice.metrics": "每 N 个 step 计算一次指标，循环中不要用 .item()：最多节省 {gain:time}。",
    "finding.advice.metrics_rarely": (
        "从 step 中去掉 .item()、print 和指标计算：每 N 个 step 记录一次，在设备上累加。"
    ),
    "finding.advice.non_blocking": "使用锁页内存和 .to(device, non_blocking=True) 拷贝。",
    "finding.advice.launch_blocking": "取消 ASCEND_LAUNCH_BLOCKING：它只用于调试。",
    "finding.advice.device_gaps": "大部分在 Device 侧：请检查 Event 等待、拷贝和 kernel 之间的间隙，而不是 Host。",
    "finding.advice.causes": "按顺序解决各个原因：每个都有对应的诊断或代码行。",
    "finding.advice.prefetch": "在 step 执行期间取好并拷贝下一批数据（预取、另一条流）。",
    "finding.advice.overlap_steps": "两个 step 之间不要等待设备。",
    "finding.advice.foreach": "使用 foreach=True 或融合优化器：一次下发处理多个张量。",
    "finding.advice.graph": "把模型编译成图（torchair），只需一次下发。",
    "finding.advice.fused_optimizer": (
        "使用 torch_npu.optim.NpuFused{name}，需要梯度裁剪时使用 clip_grad_norm_fused_。"
    ),
    "finding.advice.profile_rank": "采集 rank {rank} 的 3 个或更多 step。",
    "finding.advice.compare_rank": "比较 rank {rank} 在 {name} 之前做了什么：取数据、垃圾回收、Host 负载、绑核。",
    "finding.advice.profile_ring": "采集该通信组所有卡的 profile 并比较：慢卡不是相邻的卡。",
    "finding.advice.late_unknown": "用 Level1 采集，看哪张卡迟到；在此之前不要调整 bucket 大小。",
    "finding.advice.no_tuning": "在那张卡不再迟到之前，不要调整 bucket 大小、掩盖和 HCCL 参数。",
    "finding.advice.late_first": "先解决慢卡，再看剩下的通信。",
    "finding.advice.overlap": "让梯度通信与反向计算并行：更小的 bucket（bucket_cap_mb）、异步集合通信。",
    "finding.advice.accumulate": "减少通信次数：更大的 batch 或梯度累积。",
    "finding.advice.mc2": "矩阵乘之后紧跟集合通信时，使用 MatmulAllReduce（torch_npu.npu_mm_all_reduce_base）。",
    "finding.advice.check_peer": "请查看那张卡；本卡只是受害者。",
    "finding.advice.level1": "用 Level1 采集，才能看到它在等哪张卡。",
    "finding.advice.align": "把 bucket 和张量补齐到 {bytes} 字节。",
    "finding.advice.larger_packets": "增大数据包：更大的 batch 或梯度累积，用 ZeRO-1 或 2 代替 3，使用融合优化器。",
    "finding.advice.contention": "对比开启和关闭掩盖的情况：两者共享内存带宽。",
    "finding.advice.rdma": "检查 RDMA 链路和交换机。",
    "finding.advice.share.cube": "设备本来就是用来做矩阵计算的：先减少它（shape、精度），再谈加速。",
    "finding.advice.share.copy": "相邻算子保持同一种格式（NC1HWC0）；由 allow_internal_format 控制。",
    "finding.advice.share.layout": "一次选定内存排布：step 中每次 permute 或 contiguous 都要一次拷贝。",
    "finding.advice.share.softmax": (
        "使用 torch_npu.npu_scaled_masked_softmax 或融合 attention 算子；奇数 shape 很慢。"
    ),
    "finding.advice.dominant": "检查它的 shape 以及由什么下发。",
    "finding.advice.replace": "寻找更省的写法（npu-tui explain OP.AFFINITY_KERNEL）。",
    "finding.advice.ai_cpu": "使用 AI Core 支持的类型（用 float 或 int32 代替 double 或 int64）。",
    "finding.advice.ai_cpu_operators": "用固定 shape 的 mask 代替 index、index_put、nonzero 和 argmin。",
    "finding.advice.mixed_precision": (
        "使用 torch.npu.amp.autocast 或 bf16：矩阵计算的时间和内存减半；注意观察 loss。"
    ),
    "finding.advice.bandwidth": "与相邻算子融合，让数据留在片上；检查 tiling。",
    "finding.advice.outlier_shape": "对比慢调用与其他调用的输入 shape（record_shapes）。",
    "finding.advice.outlier_neighbour": "查看同一时间其他流上在执行什么：通信或拷贝会占用带宽。",
    "finding.advice.pause_look": "查看程序在此处做什么：保存 checkpoint、评估、日志、数据或锁。",
    "finding.advice.pause_record": "打开 with_stack 采集，或用 record_function 标记代码段，即可看到代码行。",
    "finding.advice.use": "使用 {api}。",
    "finding.advice.check_numbers": "每次替换后请核对数值结果；这些序列占计算的 {share:share}。",
    "finding.advice.workers": "设置 num_workers=4 和 prefetch_factor=2：目前在训练进程中取数据。",
    "finding.advice.workers_more": "增大 num_workers 和 prefetch_factor，并检查 taskset 是否把它们绑在同一批核上。",
    "finding.advice.pin_memory": "使用 pin_memory=True 和非阻塞拷贝。",
    "finding.advice.storage": "检查存储：不要边读边解压，不要使用没有缓存的网络文件。",
    "finding.advice.fewer_copies": "直接在设备上创建张量，把小拷贝合并成一次。",
    "finding.advice.expandable": "设置 PYTORCH_NPU_ALLOC_CONF=expandable_segments:True。",
    "finding.advice.empty_cache": "从 step 中去掉 torch.npu.empty_cache()。",
    "finding.advice.smaller_batch": "内存不足时减小 batch。",
    "finding.advice.checkpointing": "对激活值做重计算（torch.utils.checkpoint）。",
    "finding.advice.gc": (
        "在第一个 step 之后调用 gc.freeze() 和 gc.set_threshold(…)，或 gc.disable() 并每 N 个 step 回收一次。"
    ),
    "finding.advice.gc_record": "采集时设置 gc_detect_threshold，以记录垃圾回收。",
    "finding.advice.power": "检查温度和功耗（npu-smi info -t power,temp）。",
    "finding.advice.not_recorded": (
        "profile 不记录 TASK_QUEUE_ENABLE 和 CPU_AFFINITY_CONF：请在运行任务的机器上检查。"
    ),
    "finding.advice.profile_again": "设置 l2_cache=False、with_stack=False 和 Level1 重新采集，再作比较。",
    "finding.advice.not_your_model": "与不采集的运行对比时，不要计入这些停顿。",
    "finding.needs.device": "没有任何设备层含有使设备工作的片段",
    "finding.needs.links": "没有 HostToDevice 连线指向工作片段",
    "finding.needs.overlap": "没有设备时间：既没有 Overlap Analysis，也没有计算片段",
    "finding.needs.cann": "没有 CANN 片段；请用 Level1 或以上采集",
    "finding.needs.python": "没有 Python 层；采集时请开启 CPU activity",
    "finding.needs.planes": "没有集合通信的 Plane 任务；请用 Level1 或以上采集多张卡",
    "finding.needs.steps": "没有下发过任务的 ProfilerStep#N",
    "finding.needs.frequency": "trace 中没有 AI Core Freq 计数器",
    "finding.needs.kernel_details": "trace 旁边需要 kernel_details.csv",
    "finding.needs.pmu": "需要带 AI Core 指标（aic_mte2_ratio）的 kernel_details.csv；采集时请设置 aic_metrics",
    "finding.needs.metadata": "trace 的上级目录中需要 profiler_metadata.json",
    "finding.needs.memory": "trace 旁边需要带 PTA 行的 memory_record.csv；采集时请设置 profile_memory=True",
    "finding.needs.links_fewest": "只有 {count:count} 次下发；判断至少需要 {fewest} 次",
    "finding.needs.dequeue": "没有同一时钟上的 Dequeue 片段：无法判断 Host 的哪一级慢",
    "finding.kind.dispatch": "下发",
    "finding.kind.compute": "计算",
    "finding.kind.communication": "通信",
    "finding.kind.memory": "内存",
    "finding.kind.config": "配置",
    "finding.kind.data": "数据",
}
