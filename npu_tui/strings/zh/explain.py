"""What each finding means and the rule that finds it, for ``npu-tui explain``."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "explain.list": "诊断列表，按类别（npu-tui explain ID 查看详情）：",
    "explain.row": "  {id:<19} {first}",
    "explain.unknown": "没有名为 {id} 的诊断；是不是 {near}？",
    "explain.unknown_all": "没有名为 {id} 的诊断；可用的有 {ids}",
    "explain.head": "{id} · {cls}",
    "explain.inputs": "需要：{inputs}",
    "explain.thresholds": "阈值：",
    "explain.threshold": "  {name} = {value}  {text}",
    "explain.advice": "处理建议：",
    "explain.item": "  - {text}",
    "explain.change": "修改示例（- 之前，+ 之后）：",
    "explain.pages": "参考：",
    "explain.page": "  {title}：{address}",
    "explain.documents": "来源：",
    "explain.document": "{title}，条目 {items}",
    "explain.input.device": "设备上的片段",
    "explain.input.links": "HostToDevice 连线",
    "explain.input.overlap": "Overlap Analysis 或计算片段",
    "explain.input.cann": "CANN 片段（Level1）",
    "explain.input.python": "Python 层",
    "explain.input.planes": "集合通信的 Plane 任务（Level1）",
    "explain.input.steps": "ProfilerStep#N",
    "explain.input.frequency": "AI Core Freq 计数器",
    "explain.input.kernel_details": "kernel_details.csv",
    "explain.input.pmu": "kernel_details.csv 中的 AI Core 指标",
    "explain.input.metadata": "profiler_metadata.json",
    "explain.input.memory": "memory_record.csv",
    "explain.DISPATCH.VERTICAL": (
        "设备空闲，在等待 Host 下发。HostToDevice 连线近垂直，说明 Host 一下发设备就开始执行，即设备队列已空"
        "。触发条件：下发次数足够多，其中有饥饿下发（损失 10 µs 或以上），Free 占比超过 free_share，并且近垂"
        "直连线占比很高，或有一段足够长、设备基本空闲的近垂直连线密集区。阻塞式拷贝本来就是垂直的，不计入。收"
        "益为损失时间，即从设备就绪到下发到达之间的时间。"
    ),
    "explain.DISPATCH.FREE": (
        "设备空闲时间占比过高。Free 是 Overlap Analysis 中除计算和通信之外的时间，包含拷贝和 Event 等待。每段"
        "空闲按结束它的那次下发划分：下发之前是 Host 下发晚，下发之后是设备启动慢。只有 Host 下发晚时才给出 "
        "Host 侧建议。如果除去拷贝和 kernel 之后的固定间隔，空闲不超过 free_share，则仅为 info：由 DATA.COPY 和 "
        "PROFILER.OVERHEAD 判断。"
    ),
    "explain.DISPATCH.STAGE": (
        "Host 的哪一级慢。Python 级（一级流水）填充任务队列；CANN 级（二级流水）由 Dequeue 线程调用 CANN。如"
        "果在 Host 下发晚的时间里 Dequeue 线程有一半或以上无事可做，则 Python 慢；否则 CANN 慢，并给出耗时的"
        "调用。"
    ),
    "explain.DISPATCH.INTERRUPT": (
        "Host 与设备之间的流水被打断：100 µs 或更久没有在途的下发。每次中断取第一个符合的原因：Host 同步等待"
        "、耗时长的集合通信、拷贝、AI CPU 算子、算子编译、内存申请释放、垃圾回收、取数据，其余归为 Python。从"
        "已填满的队列中断的次数单独统计：那是运行中的流水被切断。"
    ),
    "explain.DEVICE.EVENT": (
        "stream 在等待其他 stream 的 event，而设备没有别的工作，例如带旁路 stream 的捕获图。统计的是 EVENT_WAIT 任务内的 Free 时间："
        "event 触发后该 stream 立即继续，并扣除 Host 下发过晚的部分。等待与另一条 stream 上在其结束时触发的记录配对，否则与其之前最后下发的记录配对。"
    ),
    "explain.SYNC.HOST": (
        "Host 等待设备（item()、nonzero()、synchronize、阻塞式拷贝），之后设备又等待 Host。设备有活可干时等待"
        "本身没有代价；计入的是等待之后的损失时间，以及训练循环中含有这类等待的代码行的损失时间。如果大多数下"
        "发之后都紧跟着等待，说明设置了 ASCEND_LAUNCH_BLOCKING=1。"
    ),
    "explain.OP.COMPILE": (
        "训练过程中编译算子（aclopCompileAndExecute）。统计调用次数和总耗时；收益只计设备空闲等待的那部分。"
    ),
    "explain.STEP.START": (
        "从 ProfilerStep#N 到其后第一个 kernel 或集合通信之间设备空闲的时间（即 step_trace_time.csv 的 "
        "Preparing 列）。它不计入 Free。通常是取数据和拷贝数据。"
    ),
    "explain.OP.SMALL": "大多数 kernel 太短，Host 下发的速度跟不上设备执行的速度，设备在等待这些下发。",
    "explain.OPT.FUSED": "该优化器在 torch_npu 中有融合版本。设备在等待下发时才重要，否则只作提示。",
    "explain.COMM.STRAGGLER": (
        "本卡在等一张或几张慢卡。对每个对端的第一个 Notify_Wait 说明它何时进入集合通信；计入的是慢卡比其余各卡"
        "晚到的、未被计算掩盖的时间。每个 step 的首次接收还要等流水线填充：前面每一级最多一次前反向的时间不计入。"
    ),
    "explain.COMM.EXPOSED": (
        "没有计算掩盖的通信。如果其中一半是等待慢卡，则不建议做掩盖，应先解决慢卡；收益为除此之外的部分。"
    ),
    "explain.COMM.LONGOP": (
        "某个集合通信的耗时远超同类型、同大小的其他通信，或占设备时间的比例很大。等待与传输分开统计：如果传输"
        "很快，带宽就不是问题。"
    ),
    "explain.COMM.LINK": (
        "通信链路使用不佳：数据大小未按 512 字节对齐，小包过多，矩阵乘期间 SDMA 变慢，或 RDMA 耗时数秒。只有"
        "一张卡的数据无法区分链路慢还是对端慢。"
    ),
    "explain.OP.SHARE": (
        "某类算子占计算时间的比例高于通常水平：格式转换与拷贝、转置、softmax。卷积和矩阵乘占比高只作提示：设"
        "备本来就该做这些。"
    ),
    "explain.OP.DOMINANT": "某一种算子类型占了大部分计算时间。矩阵乘和 attention 只作提示。",
    "explain.KERNEL.BOUND": (
        "AI CPU 上 20 µs 或以上的算子（收益为未被其他工作掩盖的部分），以及所有 kernel 都按动态 shape 编译的"
        "任务（kernel_details.csv 的 OP State 列；没有该列时不判断）。"
    ),
    "explain.DTYPE": "大部分矩阵计算读取 32 位浮点数：混合精度可减半。",
    "explain.MEM.BW": "一部分 kernel 几乎全部时间都在读内存（MTE2 占比）：融合和 tiling 有用，更多的核没有用。",
    "explain.UTIL": "设备用于计算的时间占比，以及有事可做的时间占比。低于 utilization_poor 时标题会说明。始终为 info：要改什么由其他诊断给出。",
    "explain.VERDICT": "任务受限于什么：Host 下发晚造成的空闲、未掩盖通信、计算三者中最大的一个。始终为 info。",
    "explain.OP.AFFINITY_API": (
        "同一线程上可由一个 torch_npu 亲和 API 代替的顶层算子序列。成员之间可以夹一次类型转换。占比低于 "
        "affinity_share，或替换只是近似时，为 info。"
    ),
    "explain.OP.AFFINITY_KERNEL": (
        "可由一个融合算子代替的 kernel 序列，以及有更省写法的算子类型。成员之间可以夹 Cast 或 TransData。"
    ),
    "explain.DATA.LOADER": "取数据使设备空闲：最外层的 dataloader 片段很慢，或设备在这类片段期间空闲。",
    "explain.DATA.COPY": "Host 与设备之间的拷贝耗时过多，且期间没有其他工作。",
    "explain.MEM.ALLOC": "训练过程中申请或释放设备内存（aclMallocMemInner、aclrtFreePhysical、aclrtFree）。",
    "explain.MEM.PRESSURE": "在内存需求很大的任务中，分配器占用的内存远多于张量所需。",
    "explain.PY.GC": (
        "Python 的垃圾回收让 Host 停顿。如果没有采集垃圾回收，则把超过 gc_suspect_ms 且 Host 没有任何调用的 "
        "Free 列为疑似，置信度低。"
    ),
    "explain.OP.OUTLIER": (
        "同名（shape 已知时还须同 shape）算子的某些调用耗时超过中位数的 outlier_factor 倍。调用少于 8 次，或慢调用"
        "超过十分之一的名称不作判断：其 shape 可能不同。前后其他算子也同样变慢的调用不计：那里的 batch 或序列更长。"
    ),
    "explain.HOST.PAUSE": (
        "少数几段较长的时间里设备在等待下发，而 Host 没有任何事件开始；它们至少占 Host 下发慢时间的 pause_share。"
        "step 第一个 kernel 之前的停顿由 STEP.START 说明。"
    ),
    "explain.FREQ": "kernel 执行期间 AI Core 低于满频。满频取记录中的最高频率；恒定不变的频率不作判断。",
    "explain.ENV/STARTUP": "profiler_metadata.json 中影响性能的环境变量，以及未开启的任务队列。",
    "explain.PROFILER.OVERHEAD": (
        "及时下发的 kernel 在前一个结束后总要停一段固定的时间才开始，且集中在一个很窄的范围内：很可能是采集本"
        "身造成的。它不计入优化步骤：不采集时它不存在。"
    ),
}
