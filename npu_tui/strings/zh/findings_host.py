"""The texts of findings about the host and its settings: titles, details, evidence."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "finding.free.title": "设备空闲 {time:time}，占其时间的 {share:share}",
    "finding.free.detail": "共 {count:count} 个空泡，合计 {time:time}。{cause}",
    "finding.free.split": "其中 {late:share} 尚未下发（Host 晚），{side:share} 已经下发（设备启动慢）。",
    "finding.free.split_copied": "其中 {late:share} 尚未下发（Host 晚），{side:share} 已经下发（设备启动慢），{copied:share} 是拷贝。",
    "finding.free.unknown": "没有 HostToDevice 连线，无法判断是否 Host 晚；Free 包含拷贝和 Event 等待。",
    "finding.free.told": "其中 {time:time} 是拷贝或 kernel 之后的固定间隔，由其他诊断说明。",
    "finding.free.place": "空闲 {time:time}，直到 {after}",
    "finding.vertical.title": "{who} 下发太慢：NPU {where}损失 {lost:time}",
    "finding.vertical.starved": "{links:count} 次下发中有 {starved:count} 次到达时设备空闲。",
    "finding.vertical.stage.python": (
        "在 Host 下发晚的时间里，Dequeue 线程有 {idle:share} 空闲，因此慢的是 Python 级（一级流水），不是 CANN 级。"
    ),
    "finding.vertical.stage.both": (
        "在 Host 下发晚的时间里，Dequeue 线程有 {idle:share} 空闲，约占一半，因此 Python 级和 CANN 级都慢。"
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
    "finding.vertical.range_note": "损失 {lost:time}，{links:count} 次下发中 {near:count} 次近垂直，设备空闲 {idle:share}",
    "finding.vertical.waited": "空闲的设备为这次下发等了 {lost:time}",
    "finding.vertical.verdict": (
        "下发：{who} 下发太慢，{where}损失 {lost:time}（设备空闲 {idle:share}，{links:count} 次下发中 {starved:count} 次饥饿）。"
    ),
    "finding.vertical.verdict_many": "下发：{who} 下发太慢，损失 {lost:time}（{links:count} 次下发中 {starved:count} 次饥饿）。",
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
    "finding.interrupt.cause": "{cause} {count:count} 次（{time:time}）",
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
    "finding.start.blocked": "其中 Host 被阻塞 {time:time}。",
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
    "finding.small.run": "最多连续 {count:count} 个逐元素 kernel（{types:and}）：一个表达式可以合成一个 kernel。",
    "finding.small.run_at": "最多连续 {count:count} 个逐元素 kernel（{types:and}），调用处：{lines:and}。",
    "finding.small.place": "比下发它还短",
    "finding.optimizer.title": "优化器 {name} 未融合：每个 step 占用 Host {time:time}",
    "finding.optimizer.detail": (
        "Optimizer.step#{name}.step 执行 {count:count} 次，Host 耗时 {time:time}；设备为它的下发等待 {lost:time}，每次下发 {launches:mean_count} 个任务，融合优化器只需几个。"
    ),
    "finding.optimizer.detail_hidden": (
        "Optimizer.step#{name}.step 执行 {count:count} 次，Host 耗时 {time:time}，设备没有等待它的下发；每次下发 {launches:mean_count} 个任务，融合优化器只需几个。"
    ),
    "finding.optimizer.place": "NpuFused{name} 只需几次下发",
    "finding.pause.title": "Host 有 {count:count} 次无记录的停顿：{time:time}",
    "finding.pause.title_in": "Host 停顿 {count:count} 次，共 {time:time}，位于 {frame}",
    "finding.pause.verdict_in": "下发：Host 在 {frame} 中停顿 {count:count} 次，损失 {time:time}",
    "finding.pause.place_in": "{time:time}，位于 {frame}",
    "finding.pause.verdict": "下发：Host 有 {count:count} 次无记录的停顿，损失 {time:time}",
    "finding.pause.detail": (
        "{count:count} 次停顿占设备等待 Host 时间的 {share:share}，期间没有任何算子、调用或 Python 帧开始。绑"
        "核和下发参数对此无效。"
    ),
    "finding.pause.place": "{time:time} 内无记录",
    "finding.loader.title": "取一批数据最长 {time:time}；每个 {unit} 设备等待 {waits:time}",
    "finding.loader.detail": (
        "{count:count} 次取数据偏慢，平均 {mean:time}，最长 {longest:time}；其间设备空闲 {idle:time}。"
    ),
    "finding.loader.place": "取一批数据",
    "finding.loader.verdict": "数据：每个 {unit} 设备为下一批数据等待 {waits:time}。",
    "finding.allocation.title": "内存调用耗时 {time:time}；设备空闲 {lost:time}",
    "finding.allocation.detail": "{calls:and}；期间设备断流 {drains:count} 次，共 {lost:time}。",
    "finding.allocation.drops": "其间调用了 {count:count} 次 torch.npu.empty_cache()。",
    "finding.allocation.call": "{name} {count:count} 次 {time:time}",
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
}
