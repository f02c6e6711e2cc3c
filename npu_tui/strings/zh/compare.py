"""The texts of ``npu-tui compare``: what changed between two profiles."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "compare.description": "从 BASE 到 NEW 有什么变化：step 的各个部分、kernel、代码行、集合通信",
    "compare.epilog": (
        "退出码：0 完成，1 命中 --fail-on，2 用法错误，3 输入不可读。每一侧至少四个 step 才能下结论；不足时只"
        "判断计算时间，step 为不确定。"
    ),
    "compare.base": "作为比较基准的 profile",
    "compare.new": "变化后的 profile",
    "compare.format": "text、markdown、json 或 html；不给出时终端显示对比界面，否则输出文本",
    "compare.step": "要比较的 step 编号：7、5..9 或 all（默认不含第一个 step 和离群的 step；一侧反复出现的长 step 计入）",
    "compare.rank_option": "PATH 中有多张卡时：比较两个作业的 rank R，或 BASE 的 rank R 与 NEW 的 rank S",
    "compare.needs_two": "npu-tui compare：需要两份 profile，改动前和改动后：npu-tui compare BASE NEW",
    "compare.needs_new": "npu-tui compare：{path} 只是一份 profile，还缺与之对比的一份：npu-tui compare {path} NEW",
    "compare.needs_new_ranks": (
        "npu-tui compare：{path} 只是一个任务，需要两个：npu-tui compare {path} NEW。对比其中两张卡："
        "npu-tui compare {path} {path} --rank {ranks}。查看全部卡：npu-tui ranks {path}"
    ),
    "compare.bad_rank": "--rank 需要一个 rank（如 3）或两个（如 0:3），而不是 {text}",
    "compare.no_rank": "{path} 没有 rank {rank}；有 {ranks}",
    "compare.no_ranks": "{path} 中没有说明哪个是 rank {rank}",
    "compare.several": "{text}；--rank 0:1 从 BASE 和 NEW 中各选一个",
    "compare.map": "BASE 中叫 A、NEW 中叫 B 的算子或 kernel 类型；每个名称给一次",
    "compare.bad_map": "--map 需要 A=B，即 BASE 中的名称和 NEW 中的名称，而不是 {text}",
    "compare.bad_step": "--step 需要编号（如 7）、范围（如 5..9）或 all，而不是 {text}",
    "compare.no_step": "{path} 没有 step {text}",
    "compare.tolerance": "变化不超过此比例视为没有变化：3%% 同时用于两者，或 step=3%%,computing=1%%",
    "compare.bad_tolerance": "--tolerance 需要比例（如 3%）或 step=3%,computing=1%，而不是 {text}",
    "compare.fail_on": "出现这些结论时退出码为 1：slower，或 slower,unsure（无法比较也算 unsure）",
    "compare.bad_fail_on": "--fail-on 支持 slower、faster、unsure 和 incomparable，而不是 {text}",
    "compare.ignore": "不看这些诊断，写 id，用逗号分隔",
    "compare.bad_finding": "没有诊断 {name}；可用的有 {names}",
    "compare.side": "{side:<5}{path}，{rank}，每个 step {wall:time}，{steps}",
    "compare.side.whole": "{side:<5}{path}，{rank}，没有 step：整个 trace，{wall:time}",
    "compare.rank": "rank {rank}",
    "compare.single_device": "单设备",
    "compare.steps": "{count:count} 个 step",
    "compare.left_out": "未计入：{steps}",
    "compare.left_out.step": "step {step}（{reason}，{wall:time}）",
    "compare.reason.first": "第一个 step",
    "compare.reason.outlier": "离群",
    "compare.verdict": "{verdict}：step {base:time} → {new:time}，{delta:change}（{share:share_change}）",
    "compare.verdict.slower": "变慢",
    "compare.verdict.faster": "变快",
    "compare.verdict.same": "相同",
    "compare.verdict.unsure": "不确定",
    "compare.verdict.incomparable": "无法比较",
    "compare.interval": "95% 区间 {low:change} … {high:change}，p {p}",
    "compare.visible": "这些样本能看出 {share:share} 或以上的变化",
    "compare.few": "step 太少，无法对 step 下结论：每一侧至少采集四个",
    "compare.computing": "计算 {base:time} → {new:time}，{delta:change}（{share:share_change}）：{verdict}",
    "compare.computing.slower": "变慢",
    "compare.computing.faster": "变快",
    "compare.computing.same": "相同",
    "compare.computing.unsure": "不确定",
    "compare.matched": "已匹配：{operations} 的 Host 算子，{kernels} 的 kernel",
    "compare.parts": "step 的哪些部分变了",
    "compare.part.prep": "第一个 kernel 之前",
    "compare.part.computing": "计算",
    "compare.part.wait": "等待对端",
    "compare.part.transfer": "传输",
    "compare.part.exposed": "未掩盖通信",
    "compare.part.host_late": "Host 下发晚",
    "compare.part.device_side": "Device 侧间隙",
    "compare.part.unlinked": "空闲，原因未知",
    "compare.part.tail": "最后一个 kernel 之后",
    "compare.part.sum": "合计",
    "compare.findings": "变化",
    "compare.part_of": "{title}（包含在 {id} 中）",
    "compare.nothing": "没有值得关注的变化",
    "compare.profile_findings": "单份 profile 的诊断",
    "compare.profile_finding.only_new": "仅 NEW",
    "compare.profile_finding.only_base": "仅 BASE",
    "compare.profile_finding.new": "新增",
    "compare.profile_finding.solved": "已解决",
    "compare.groups": "每个 step 增加时间最多的 kernel",
    "compare.change.new": "新增",
    "compare.change.gone": "消失",
    "compare.change.slower": "变慢",
    "compare.change.faster": "变快",
    "compare.change.more": "变多",
    "compare.change.fewer": "变少",
    "compare.change.changed": "改变",
    "compare.change.replaced": "替换",
    "compare.change.same": "相同",
    "compare.stream_overlap": "在多条流上并行执行的 kernel",
    "compare.lines": "各代码行的损失时间",
    "compare.place": "{file}:{line} {function}",
    "compare.place.moved": "{file}:{line}（原为 :{base_line}）{function}",
    "compare.place.unknown": "没有调用栈的下发",
    "compare.collectives": "集合通信，按在 step 中的位置",
    "compare.collective": "{group} 的第 {ordinal} 个 {type}",
    "compare.config": "不同的设置",
    "compare.absent": "未设置",
    "compare.not_judged": "未判断",
    "compare.more": "另有 {count:count} 项",
    "compare.column.number": "#",
    "compare.column.severity": "严重程度",
    "compare.column.setting": "设置",
    "compare.column.ratio": "倍数",
    "compare.column.part": "step 的部分",
    "compare.column.base": "基准",
    "compare.column.new": "新",
    "compare.column.change": "变化",
    "compare.column.finding": "诊断",
    "compare.column.what": "变化内容",
    "compare.column.delta": "每个 step",
    "compare.column.change_kind": "变化",
    "compare.column.kernel": "kernel",
    "compare.column.base_calls": "基线次数",
    "compare.column.new_calls": "新次数",
    "compare.column.by_count": "次数变化",
    "compare.column.by_duration": "单次变化",
    "compare.column.p": "p",
    "compare.column.line": "代码行",
    "compare.column.collective": "集合通信",
    "compare.column.base_wait": "基线等待",
    "compare.column.new_wait": "新等待",
    "compare.picture.legend": "B 基线，N 新，均从典型 step 的起点开始。− 仅 B 有，+ 仅 N 有，≠ 两侧不同。",
    "compare.place.evidence": "{side} 在 {at:time} 处，{length:time}：{name}",
    "compare.column.share": "占比",
    "compare.note.level": "profiler level {base} → {new}：级别越细 kernel 越慢",
    "compare.note.stacks": "只有一侧采集了调用栈",
    "compare.note.ranks": "同一作业的两张卡：rank {base} → rank {new}",
    "compare.note.version": "{key} {base} → {new}",
    "compare.note.no_steps": "没有 ProfilerStep（{side}）：整个 trace 视为一个 step",
    "compare.note.no_trace": "没有 trace（{side}）：只有表格时无法对比；可用 npu-tui ranks 和 npu-tui query 查看",
    "compare.note.no_device": "设备上没有任何执行（{side}）",
    "compare.note.unlike": "只有 {share:share} 的工作有对应项",
    "compare.note.by_operation": "kernel 名称不同：按下发它们的算子比较",
    "compare.ratio": "{ratio}×",
    "compare.computing.ratio": "计算耗时是基线的 {ratio}×",
    "compare.note.partly": "{share:share} 的工作有对应项",
    "compare.skipped.short_kernels": "20 µs 以下的 kernel：profiler level 不同",
    "compare.skipped.host_times": "Host 上的 Python 时间：采集调用栈会拖慢其中一侧",
    "explain.compare": "对比（npu-tui compare BASE NEW）",
    "explain.compare.needs": "需要：两份 profile，BASE 和 NEW；时间均按每个 step 计，为新侧减基线",
    # DIFF.STEP
    "explain.DIFF.STEP": "step 变长或变短。每侧不少于四个 step 时，由 Hodges-Lehmann 位移的 95% 区间和精确的 Mann-Whitney 检验判断（同一作业的 rank 用 Wilcoxon）：区间不含 0，且变化超过容差。step 更少时结论为不确定，不确定不算通过。",
    "diff.step.slower": "step 变长 {delta:change}（{share:share_change}）",
    "diff.step.faster": "step 变短 {delta:change}（{share:share_change}）",
    "finding.advice.DIFF.STEP": "先看排在它前面的诊断：它们说明差异从何而来。",
    # DIFF.KERNEL.NEW
    "explain.DIFF.KERNEL.NEW": "基线没有的 kernel，按类型、shape、数据类型、格式和核区分。已匹配算子的 kernel 只是这些属性不同时，算改变，不算新增。",
    "diff.new": "新增 kernel {kernel}{attributes}：每个 step {new_count:mean_count} 次 × {new_median:time}",
    "finding.advice.DIFF.KERNEL.NEW": "看是哪个算子下发的：类型转换、拷贝和格式转换常常不知不觉地加进来。",
    # DIFF.KERNEL.GONE
    "explain.DIFF.KERNEL.GONE": "只有基线才有的 kernel。请确认这部分工作由别处完成，而不是被漏掉。",
    "diff.gone": "kernel {kernel}{attributes} 消失：原先每个 step {base_count:mean_count} 次 × {base_median:time}",
    "finding.advice.DIFF.KERNEL.GONE": "若非有意，请比较两侧下发它们的算子。",
    # DIFF.KERNEL.SLOWER
    "explain.DIFF.KERNEL.SLOWER": "同一 kernel 单次耗时变长。对两侧的全部调用做检验（Mann-Whitney），所有 kernel 的检验一起校正（Benjamini-Hochberg，0.1）；调用少于四次时变化须超过 15%，因为相同的两次运行之间单次调用就有这么大的波动。",
    "diff.slower": (
        "{kernel}{attributes} 变慢：每次 {base_median:time} → {new_median:time}，每个 step {new_count:mean_count} 次"
    ),
    "finding.advice.DIFF.KERNEL.SLOWER": "检查两侧的格式、频率，以及 CANN 和算子包的版本。",
    # DIFF.KERNEL.FASTER
    "explain.DIFF.KERNEL.FASTER": "同一 kernel 单次耗时变短，判断方法与变慢相同。",
    "diff.faster": (
        "{kernel}{attributes} 变快：每次 {base_median:time} → {new_median:time}，每个 step {new_count:mean_count} 次"
    ),
    "finding.advice.DIFF.KERNEL.FASTER": "保留该改动；确认 shape 和数据类型仍符合预期。",
    # DIFF.KERNEL.MORE
    "explain.DIFF.KERNEL.MORE": "同一 kernel 每个 step 的次数变多。差异分为次数变化和单次变化两部分。",
    "diff.more": (
        "{kernel}{attributes} 的次数变多：每个 step {base_count:mean_count} → {new_count:mean_count} 次，每"
        "次 {new_median:time}"
    ),
    "finding.advice.DIFF.KERNEL.MORE": "查找新增的循环、层或重计算。",
    # DIFF.KERNEL.FEWER
    "explain.DIFF.KERNEL.FEWER": "同一 kernel 每个 step 的次数变少。",
    "diff.fewer": (
        "{kernel}{attributes} 的次数变少：每个 step {base_count:mean_count} → {new_count:mean_count} 次，每"
        "次 {base_median:time}"
    ),
    "finding.advice.DIFF.KERNEL.FEWER": "若非有意，请查找不再执行到的层或分支。",
    # DIFF.KERNEL.CHANGED
    "explain.DIFF.KERNEL.CHANGED": "已匹配的算子下发了同类型的 kernel，但数据类型、shape、格式或核不同：这是一个改变的 kernel，而不是一消失一新增。",
    "diff.changed": (
        "{kernel} 改变了{what}：{base_count:mean_count} 次 × {base_median:time} → {new_count:mean_count} 次 ×"
        " {new_median:time}"
    ),
    "diff.attribute.dtypes": "数据类型，{base} → {new}",
    "diff.attribute.shapes": "shape，{base} → {new}",
    "diff.attribute.formats": "格式，{base} → {new}",
    "diff.attribute.core": "核，{base} → {new}",
    "finding.advice.DIFF.KERNEL.CHANGED": "检查该算子处的混合精度、batch 的 shape 和内存格式。",
    # DIFF.REPLACED
    "explain.DIFF.REPLACED": "在两个已匹配的算子之间，新侧执行的算子与基线不同，例如用一个融合算子代替几个小算子。两段只按其 kernel 的耗时比较。",
    "diff.replaced": "{kernel} 代替了 {was}：每个 step {base_count:mean_count} → {new_count:mean_count} 次",
    "finding.advice.DIFF.REPLACED": "比较两段的合计；融合算子应比被替换的算子耗时更短。",
    # DIFF.LINE
    "explain.DIFF.LINE": "该代码行的下发使设备等待的时间（损失时间）比以前多或少。只是行号移动的仍是同一行。",
    "diff.line": "{file}:{line} {function} 下发变晚：设备每个 step 损失 {base:time} → {new:time}",
    "diff.line_earlier": "{file}:{line} {function} 下发变早：设备每个 step 损失 {base:time} → {new:time}",
    "finding.advice.DIFF.LINE": "看该行在下发之前做了什么：Python 计算、读取数值、准备数据。",
    # DIFF.SYNC.ADDED
    "explain.DIFF.SYNC.ADDED": "从设备读回数值的算子（item、is_nonzero、nonzero），基线没有。Host 在此等待设备，之后设备又等待 Host。",
    "diff.sync_added": "新增 {count:次|次} Host 同步（{operation}）：每个 step 设备空闲 {delta:change}",
    "finding.advice.DIFF.SYNC.ADDED": "把数值留在设备上，或每 N 个 step 读一次。",
    # DIFF.COMM.EXPOSED
    "explain.DIFF.COMM.EXPOSED": "未被计算掩盖的通信时间变多或变少。Level0 下无法区分等待和传输。",
    "diff.exposed": "未掩盖通信：每个 step {base:time} → {new:time}",
    "finding.advice.DIFF.COMM.EXPOSED": "两侧都用 Level1 采集，才能看出是对端晚到还是传输慢。",
    # DIFF.COMM.LATE_RANK
    "explain.DIFF.COMM.LATE_RANK": "某次集合通信（按类型、通信域和在 step 中的位置）等待对端的时间变长或变短，或等待的对端变了。等待到最长的 Notify_Wait 结束为止。",
    "diff.late_rank": (
        "{group} 的第 {ordinal} 个 {type} 等待的是 rank {new_peer}，而不是 rank {base_peer}：{base_wait:time}"
        " → {new_wait:time}"
    ),
    "diff.wait": "{group} 的第 {ordinal} 个 {type} 等待 rank {new_peer}：{base_wait:time} → {new_wait:time}",
    "finding.advice.DIFF.COMM.LATE_RANK": "看它等待的那张卡：npu-tui ranks 显示谁晚到、为什么。",
    # DIFF.COMM.BANDWIDTH
    "explain.DIFF.COMM.BANDWIDTH": "某次集合通信在最长等待之后的传输时间变长或变短。",
    "diff.bandwidth": "{group} 的第 {ordinal} 个 {type} 传输耗时 {base:time} → {new:time}",
    "finding.advice.DIFF.COMM.BANDWIDTH": "比较两侧的数据量和链路；可能有别的任务共用链路。",
    # DIFF.COMPILE
    "explain.DIFF.COMPILE": "Host 上 aclopCompileAndExecute 的时间变多或变少：step 执行中编译算子，原因是新的 shape 或没有缓存。代价按其中设备空闲的部分计。",
    "diff.compile": (
        "算子编译：每个 step {base_count:mean_count} → {new_count:mean_count} 次，Host 耗时 {base:time} → {new:time}"
    ),
    "finding.advice.DIFF.COMPILE": "使用 torch_npu.npu.set_compile_mode(jit_compile=False)，或保持 shape 不变。",
    # DIFF.LOADER
    "explain.DIFF.LOADER": "Host 取一批数据时设备空闲的时间变长或变短：名称含 dataloader 的片段中，设备既不计算也不通信的部分。",
    "diff.loader": "取数据：每个 step 设备等待 {base:time} → {new:time}",
    "finding.advice.DIFF.LOADER": "比较两次运行的 num_workers、prefetch_factor 和存储。",
    # DIFF.COPY
    "explain.DIFF.COPY": "设备既不计算也不通信时的拷贝时间变长或变短：拷贝更多、数据更大，或内存没有锁页。",
    "diff.copy": "设备没有其他工作时的拷贝：每个 step {base:time} → {new:time}",
    "finding.advice.DIFF.COPY": "从锁页内存用 non_blocking=True 拷贝，与上一个 step 重叠。",
    # DIFF.MEMORY
    "explain.DIFF.MEMORY": "框架内存分配器的峰值相差 2% 且 16 MiB 以上。",
    "diff.memory.allocated": "已用内存峰值：{base:memory} → {new:memory}（{share:share_change}）",
    "diff.memory.reserved": "预留内存峰值：{base:memory} → {new:memory}（{share:share_change}）",
    "finding.advice.DIFF.MEMORY": "在标出的时刻查看两侧的内存泳道。",
    # DIFF.FREQ
    "explain.DIFF.FREQ": "采集到的 AI Core 频率相差 2% 以上：不考虑频率就无法比较计算。",
    "diff.frequency": "AI Core 频率：{base:.0f} → {new:.0f} MHz",
    "finding.advice.DIFF.FREQ": "检查两侧设备的功耗和温度，在相同频率下重新测量。",
    # DIFF.CONFIG
    "explain.DIFF.CONFIG": "profiler 设置、版本或环境变量不同。某一侧没有记录的不算不同。",
    "diff.config": "{count:项设置不同|项设置不同}：{keys}",
    "finding.advice.DIFF.CONFIG": "一次只改一处，或确认这个不同正是要测量的。",
    # DIFF.INCOMPARABLE
    "explain.DIFF.INCOMPARABLE": "某一侧的设备上没有任何执行，或不到五分之一的工作有对应项：任何差异都没有意义。",
    "diff.incomparable": "这两份 profile 无法比较",
    "finding.advice.DIFF.INCOMPARABLE": "两侧采集同一个程序；名称改过时用 --map A=B 说明。",
}
