"""The texts of findings that need files beside the trace: titles, details, evidence, advice, rules, thresholds."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "finding.verdict.tables": "据 step_trace_time.csv，{total:time} 中设备计算 {compute:share}，仅通信 {exposed:share}，空闲 {free:share}；没有 trace，无法得知原因。",
    "finding.block_dim.title": "Block Dim 使 {count:count} 个 kernel 的核时间有 {share:share} 闲置",
    "finding.block_dim.detail": "最后一轮的 block 占不满所有核：相当于 {time:time} 的 kernel 时间在闲置的核上，主要在 {kernels:and}。",
    "finding.block_dim.place": "Block Dim {dim}",
    "finding.ai_cpu.title": "{count:count} 个 kernel 因 64 位数据类型在 AI CPU 上执行：{time:time}",
    "finding.ai_cpu.detail": "AI Core 没有这些数据类型的 kernel：{names:and}。",
    "finding.ai_cpu.place": "AI CPU，输入 {dtypes}",
    "finding.pipes.title.mac": "已测量的 kernel 时间中 {share:share} 受限于 Cube（MAC）",
    "finding.pipes.title.mte2": "已测量的 kernel 时间中 {share:share} 受限于读内存（MTE2）",
    "finding.pipes.title.vec": "已测量的 kernel 时间中 {share:share} 受限于向量单元（VEC）",
    "finding.pipes.title.none": "已测量的 kernel 时间中 {share:share} 没有占满任何流水",
    "finding.pipes.detail": (
        "已测量的 kernel 时间：MAC {mac:share}，MTE2 {mte2:share}，VEC "
        "{vec:share}，无瓶颈流水 {none:share}。耗时最多：{kernels:and}。"
    ),
    "finding.pipes.place": "MAC {mac:share}，MTE2 {mte2:share}，VEC {vec:share}",
    "finding.cache.title": "{share:share} 的 kernel 时间 L2 缓存命中率低于 {least:share}",
    "finding.cache.detail": "平均命中率 {mean:share}。低命中率中耗时最多：{kernels:and}。",
    "finding.cache.place": "L2 命中率 {rate:share}",
    "finding.mfu.title": "矩阵乘用到设备峰值算力的 {mfu:share}（MFU）",
    "finding.mfu.detail": (
        "{count:count} 个矩阵乘共 {tflops:.2f} TFLOP，执行期间达到 {peak:.1f} T"
        "FLOPS 的 {share:share}。差距最大：{kernels:and}。"
    ),
    "finding.mfu.place": "峰值的 {share:share}",
    "finding.formats.title": "{count:count} 个 kernel 在转换格式或布局：{time:time}（占 kernel 时间 {share:share}）",
    "finding.formats.detail": "按相邻算子：{groups:list}。",
    "finding.formats.group": "{source} → {target}，位于 {before} 与 {after} 之间 {count:count} 次 {time:time}",
    "finding.formats.place": "{source} → {target}",
    "finding.vectors.title": "{count:count} 个向量 kernel 的带宽低于最佳值（{best:.0f} GB/s）的 {share:share}",
    "finding.vectors.detail": "共 {time:time}（占 kernel 时间 {part:share}）：{names:and}。",
    "finding.vectors.place": "{size:size}，{speed:.1f} GB/s",
    "finding.slow_link.slow": "{count:count} 次 {transport} 传输为 {speed:.1f} GB/s，低于 {least:.1f}（{time:time}）",
    "finding.slow_link.contended": (
        "{count:count} 次 {transport} 传输为 {speed:.1f} GB/s，低于 "
        "{least:.1f}（{time:time}），其中 {contended} 次与矩阵乘同时进行"
    ),
    "finding.slow_link.place": "{transport} 传输 {size:size}，{speed:.1f} GB/s",
    "finding.preprocess.title": "数据预处理耗时 {time:time}，主要在 {name}",
    "finding.preprocess.detail": "data_preprocess.csv 共 {count:count} 行：{names:and}。",
    "finding.preprocess.place": "数据预处理",
    "finding.pressure.place": "预留 {size:memory}",
    "finding.pressure.peak": "内存峰值",
    "finding.growth.title": "分配器在 step 内 {count:count} 次向设备申请内存，共 {size:memory}",
    "finding.growth.detail": "每次都由驱动申请，step 在等待。发生在 {names:and}。",
    "finding.growth.unknown": "每次都由驱动申请，step 在等待。",
    "finding.growth.place": "预留增加 {size:memory}",
    "finding.leak.title": "内存每个 step 增长 {size:memory}，持续 {count:count} 个 step",
    "finding.leak.detail": "step 结束时的已分配内存增长了 {size:memory}。这些 step 中申请且未释放：{names:and}。",
    "finding.leak.unknown": "step 结束时的已分配内存增长了 {size:memory}。",
    "finding.leak.holder": "{name} {size:memory}",
    "finding.leak.end": "step 结束",
    "finding.leak.place": "已分配 {size:memory}",
    "finding.needs.shapes": "需要带 shape 的 kernel_details.csv；请以 Level1 或以上采集",
    "finding.needs.peak": "需要设置 peak_tflops 或已知峰值的芯片，以及带 shape 的 kernel_details.csv",
    "finding.needs.l2_cache": "需要带命中率的 l2_cache.csv；请以 l2_cache=True 采集",
    "finding.needs.transfers": "需要带传输数据的 communication.json；请以 Level1 或以上采集多卡",
    "finding.needs.preprocess": "需要 data_preprocess.csv；请以 Level1 或以上采集含 AI CPU 算子的作业",
    "finding.advice.block_dim": "检查 tiling：block 数应是核数的整数倍。",
    "finding.advice.larger_shapes": "使用能让每个核都有工作的 shape：更大的 batch，或能均分的维度。",
    "finding.advice.narrow_types": "转换为 AI Core 支持的类型：用 int32 代替 int64，用 float32 代替 float64。",
    "finding.advice.pipes_mac": "Cube 已饱和：只有减少计算量或使用更窄的类型才能更快。",
    "finding.advice.pipes_mte2": "瓶颈是读内存：与相邻算子融合，让数据留在 L2 缓存，使用更窄的类型。",
    "finding.advice.pipes_vec": "瓶颈是向量单元：融合逐元素 kernel，使用更窄的类型。",
    "finding.advice.pipes_none": "没有流水饱和：shape 太小或 tiling 不佳；更大的 shape 和融合算子会有帮助。",
    "finding.advice.cache_tiling": "让共用数据的 kernel 相邻执行，并对照 L2 缓存检查 tiling 和数据大小。",
    "finding.advice.mfu": "先提高矩阵计算的占比（下发、通信），再增大矩阵的尺寸。",
    "finding.advice.formats": "去掉转换：设置 torch_npu.npu.config.allow_internal_format = False，或让整条链使用同一格式。",
    "finding.advice.formats_group": "把使用相同格式的算子放在一起，只转换一次。",
    "finding.advice.vector_layout": "使用连续的张量，内轴为 32 字节的整数倍。",
    "finding.advice.slow_link": "检查链路（hccn_tool、拓扑），以及是否与其他作业共用。",
    "finding.advice.preprocess": "把预处理移出设备，或提前一个 step 开始。",
    "finding.advice.warm_pool": "让最初几个 step 申请最大的 batch，使内存池事先达到所需大小。",
    "finding.advice.leak": "查找跨 step 保留的张量：loss 列表、缓存、hook。",
    "finding.advice.leak_detach": "保留数值而不是张量：loss.detach()，或每 N 个 step 才 .item()。",
    "explain.input.shapes": "kernel_details.csv 中的 shape（Level1）",
    "explain.input.peak": "设置 peak_tflops 或已知峰值的芯片，以及 kernel_details.csv 中的 shape",
    "explain.input.l2_cache": "l2_cache.csv",
    "explain.input.transfers": "communication.json（Level1）",
    "explain.input.preprocess": "data_preprocess.csv",
    "explain.KERNEL.CORES": (
        "kernel 使部分核闲置。kernel 按轮执行，每轮的 block 数等于核数；最后一轮有的核没有 block。"
        "核数由设置给出（cube_cores、vector_cores）；没有设置时由 kernel 的 cycle 数推算"
        "，否则取最大的 Block Dim。"
    ),
    "explain.KERNEL.AICPU": (
        "kernel 因数据类型在 AI CPU 上执行。AI Core 对大多数 64 位类型没有 kernel，kern"
        "el_details.csv 显示它们在 AI_CPU 上，慢很多倍。"
    ),
    "explain.KERNEL.PIPE": (
        "kernel 受限于什么。AI Core 指标给出每条流水的忙时：Cube（MAC）、读（MTE2）、向量单元（VE"
        "C）。几乎全程忙的流水就是瓶颈；都不忙则是 shape 或 tiling 不佳。列出其中耗时最多的 shape。"
    ),
    "explain.MEM.L2": "kernel 在 L2 缓存中很少命中。l2_cache.csv 给出每个 task 的命中率；占比按命中率已知的 kernel 时间计算。",
    "explain.MFU": "模型算力利用率：按 shape 计算的矩阵乘运算量，除以设备时间和峰值。峰值取 peak_tflops；否则按数据库给出的芯片型号取 16 位浮点峰值，且只计该类型的矩阵乘。",
    "explain.OP.FORMAT": (
        "格式转换，按转换内容和两侧算子归类：TransData 和 Transpose kernel 及 kernel_de"
        "tails.csv 中的格式。两侧算子使用同一格式时，其间的转换可以去掉。"
    ),
    "explain.MEM.VECTOR": "大的向量 kernel 远低于其他 kernel 达到的带宽。字节数为输入输出各访问一次；最佳值为 profile 的 90 分位，或设置 memory_gb_s。",
    "explain.COMM.PACKETS": (
        "小包或未对齐的包，依据 communication.json。SDMA 与 RDMA 分开统计；HCCS、PCIE、"
        "SIO 是链路，数据由 SDMA 搬运。trace 中有 plane 任务时，由 COMM.LINK 给出每次传输。"
    ),
    "explain.COMM.BANDWIDTH": "包很大但传输慢，依据 communication.json。若同时有矩阵乘在执行，两者争用同一内存。",
    "explain.DATA.PREPROCESS": "数据预处理耗时长，依据 data_preprocess.csv。",
    "explain.MEM.GROWTH": "分配器在 step 内向设备申请内存。内存池没有合适的块时，memory_record.csv 中的预留内存增长；每次都由驱动申请，很慢。内存池填充的第一个 step 不计。",
    "explain.MEM.LEAK": "内存逐个 step 增长。依据 memory_record.csv，每个 step 结束时的已分配内存都必须增长。其间申请且未释放的按算子列出。",
    "threshold.growth_mb": "计入的预留内存增长，MB（自定：内存池的一个块）",
    "threshold.growth_fewest": "step 内增长的最少次数（自定）",
    "threshold.leak_mb": "相邻 step 间已分配内存的增长，MB（自定）",
    "threshold.leak_steps": "必须持续增长的最少 step 数（自定）",
    "threshold.block_dim_us": "计入 Block Dim 的最短 kernel，us（msprof-analyze advisor：20 us）",
    "threshold.block_dim_share": "闲置核时间占 kernel 时间的比例（自定：10 %）",
    "threshold.cube_cores": "设备的 Cube 核数；0：由 kernel 的 cycle 数推算，否则取最大的 Block Dim",
    "threshold.vector_cores": "设备的 Vector 核数；0：由 kernel 的 cycle 数推算，否则取最大的 Block Dim",
    "threshold.mac_bound": "受限于 Cube 的 kernel 的 mac_ratio（msprof-analyze advisor：0.8）",
    "threshold.vec_bound": "受限于向量单元的 kernel 的 vec_ratio（msprof-analyze advisor：0.75）",
    "threshold.pipe_share": "受限于同一流水的已测量 kernel 时间比例（自定：10 %）",
    "threshold.l2_hit": "kernel 计入的 L2 命中率上限（自定：一半）",
    "threshold.l2_share": "此类 kernel 的时间比例（自定：20 %）",
    "threshold.peak_tflops": "设备在矩阵乘所用类型下的峰值，TFLOPS；0：按数据库中的芯片型号，取 16 位浮点峰值",
    "threshold.format_share": "格式转换占 kernel 时间的比例（自定：5 %）",
    "threshold.vector_mb": "向量 kernel 计入的最小数据量，MB（自定）",
    "threshold.vector_slow": "低于最佳带宽的这个比例即为慢（自定：25 %）",
    "threshold.vector_share": "慢向量 kernel 占 kernel 时间的比例（同 severity_medium）",
    "threshold.memory_gb_s": "设备的内存带宽，GB/s；0：取 profile 中的最佳值",
    "threshold.rdma_gb_s": "RDMA 传输为慢的带宽上限，GB/s（msprof-analyze advisor：12.5 的 0.8）",
    "threshold.slow_share": "慢传输占传输时间的比例（自定：20 %）",
    "threshold.preprocess_ms": "数据预处理计入的最短时间，ms（同 loader_ms）",
}
