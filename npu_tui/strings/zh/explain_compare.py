"""What each finding of a comparison means, for ``npu-tui explain``."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "explain.compare": "对比（npu-tui compare BASE NEW）",
    "explain.compare.needs": "需要：两份 profile，BASE 和 NEW；时间均按每个 step 计，为新侧减基线",
    "explain.DIFF.STEP": (
        "step 变长或变短。每侧不少于四个 step 时，由 Hodges-Lehmann 位移的 95% 区间和精确的 Mann-Whitney 检验判断（同一作业的 "
        "rank 用 Wilcoxon）：区间不含 0，且变化超过容差。step 更少时结论为不确定，不确定不算通过。"
    ),
    "explain.DIFF.STEP.do": "先看排在它前面的诊断：它们说明差异从何而来。",
    "explain.DIFF.KERNEL.NEW": (
        "基线没有的 kernel，按类型、shape、数据类型、格式和核区分。已匹配算子的 kernel 只是这些属性不同时，算改变，不算新增。"
    ),
    "explain.DIFF.KERNEL.NEW.do": "看是哪个算子下发的：类型转换、拷贝和格式转换常常不知不觉地加进来。",
    "explain.DIFF.KERNEL.GONE": "只有基线才有的 kernel。请确认这部分工作由别处完成，而不是被漏掉。",
    "explain.DIFF.KERNEL.GONE.do": "若非有意，请比较两侧下发它们的算子。",
    "explain.DIFF.KERNEL.SLOWER": (
        "同一 kernel 单次耗时变长。对两侧的全部调用做检验（Mann-Whitney），所有 kernel 的检验一起校正（Benjamini-Hochberg，0.1）；"
        "调用少于四次时变化须超过 15%，因为相同的两次运行之间单次调用就有这么大的波动。"
    ),
    "explain.DIFF.KERNEL.SLOWER.do": "检查两侧的格式、频率，以及 CANN 和算子包的版本。",
    "explain.DIFF.KERNEL.FASTER": "同一 kernel 单次耗时变短，判断方法与变慢相同。",
    "explain.DIFF.KERNEL.FASTER.do": "保留该改动；确认 shape 和数据类型仍符合预期。",
    "explain.DIFF.KERNEL.MORE": "同一 kernel 每个 step 的次数变多。差异分为次数变化和单次变化两部分。",
    "explain.DIFF.KERNEL.MORE.do": "查找新增的循环、层或重计算。",
    "explain.DIFF.KERNEL.FEWER": "同一 kernel 每个 step 的次数变少。",
    "explain.DIFF.KERNEL.FEWER.do": "若非有意，请查找不再执行到的层或分支。",
    "explain.DIFF.KERNEL.CHANGED": (
        "已匹配的算子下发了同类型的 kernel，但数据类型、shape、格式或核不同：这是一个改变的 kernel，而不是一消失一新增。"
    ),
    "explain.DIFF.KERNEL.CHANGED.do": "检查该算子处的混合精度、batch 的 shape 和内存格式。",
    "explain.DIFF.REPLACED": (
        "在两个已匹配的算子之间，新侧执行的算子与基线不同，例如用一个融合算子代替几个小算子。两段只按其 kernel 的耗时比较。"
    ),
    "explain.DIFF.REPLACED.do": "比较两段的合计；融合算子应比被替换的算子耗时更短。",
    "explain.DIFF.LINE": (
        "该代码行的下发使设备等待的时间（损失时间）比以前多或少。只是行号移动的仍是同一行；--base-rev REV 通过 git 跟踪代码行。"
    ),
    "explain.DIFF.LINE.do": "看该行在下发之前做了什么：Python 计算、读取数值、准备数据。",
    "explain.DIFF.SYNC.ADDED": (
        "从设备读回数值的算子（item、is_nonzero、nonzero），基线没有。Host 在此等待设备，之后设备又等待 Host。"
    ),
    "explain.DIFF.SYNC.ADDED.do": "把数值留在设备上，或每 N 个 step 读一次。",
    "explain.DIFF.COMM.EXPOSED": "未被计算掩盖的通信时间变多或变少。Level0 下无法区分等待和传输。",
    "explain.DIFF.COMM.EXPOSED.do": "两侧都用 Level1 采集，才能看出是对端晚到还是传输慢。",
    "explain.DIFF.COMM.LATE_RANK": (
        "某次集合通信（按类型、通信域和在 step 中的位置）等待对端的时间变长或变短，或等待的对端变了。等待到最长的 Notify_Wait 结束为止。"
    ),
    "explain.DIFF.COMM.LATE_RANK.do": "看它等待的那张卡：npu-tui ranks 显示谁晚到、为什么。",
    "explain.DIFF.COMM.BANDWIDTH": "某次集合通信在最长等待之后的传输时间变长或变短。",
    "explain.DIFF.COMM.BANDWIDTH.do": "比较两侧的数据量和链路；可能有别的任务共用链路。",
    "explain.DIFF.COMPILE": (
        "Host 上 aclopCompileAndExecute 的时间变多或变少：step 执行中编译算子，原因是新的 shape 或没有缓存。代价按其中设备空闲的部分计。"
    ),
    "explain.DIFF.COMPILE.do": "使用 torch_npu.npu.set_compile_mode(jit_compile=False)，或保持 shape 不变。",
    "explain.DIFF.LOADER": (
        "Host 取一批数据时设备空闲的时间变长或变短：名称含 dataloader 的片段中，设备既不计算也不通信的部分。"
    ),
    "explain.DIFF.LOADER.do": "比较两次运行的 num_workers、prefetch_factor 和存储。",
    "explain.DIFF.COPY": ("设备既不计算也不通信时的拷贝时间变长或变短：拷贝更多、数据更大，或内存没有锁页。"),
    "explain.DIFF.COPY.do": "从锁页内存用 non_blocking=True 拷贝，与上一个 step 重叠。",
    "explain.DIFF.MEMORY": "框架内存分配器的峰值相差 2% 且 16 MiB 以上。",
    "explain.DIFF.MEMORY.do": "在标出的时刻查看两侧的内存泳道。",
    "explain.DIFF.FREQ": "采集到的 AI Core 频率相差 2% 以上：不考虑频率就无法比较计算。",
    "explain.DIFF.FREQ.do": "检查两侧设备的功耗和温度，在相同频率下重新测量。",
    "explain.DIFF.CONFIG": "profiler 设置、版本或环境变量不同。某一侧没有记录的不算不同。",
    "explain.DIFF.CONFIG.do": "一次只改一处，或确认这个不同正是要测量的。",
    "explain.DIFF.INCOMPARABLE": "某一侧的设备上没有任何执行，或不到五分之一的工作有对应项：任何差异都没有意义。",
    "explain.DIFF.INCOMPARABLE.do": "两侧采集同一个程序；名称改过时用 --map A=B 说明。",
}
