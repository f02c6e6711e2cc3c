"""The texts of findings that need files beside the trace: titles, details, evidence, advice, rules, thresholds."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "finding.verdict.tables": "Of {total:time} by step_trace_time.csv the device computes {compute:share}, communicates alone {exposed:share} and is free {free:share}; without a trace nothing tells why.",
    "finding.block_dim.title": "Block Dim leaves {share:share} of the core time unused in {count:kernel|kernels}",
    "finding.block_dim.detail": (
        "Their blocks do not fill the last round of the cores: {time:time} of kernel time in idle cores, most of "
        "it in {kernels:and}."
    ),
    "finding.block_dim.place": "Block Dim {dim}",
    "finding.ai_cpu.title": "{count:kernel runs|kernels run} on the AI CPU because of 64-bit types: {time:time}",
    "finding.ai_cpu.detail": "The AI core has no kernel for these data types: {names:and}.",
    "finding.ai_cpu.place": "AI CPU, inputs {dtypes}",
    "finding.pipes.title.mac": "{share:share} of the measured kernel time is bound by the cube (MAC)",
    "finding.pipes.title.mte2": "{share:share} of the measured kernel time is bound by reading memory (MTE2)",
    "finding.pipes.title.vec": "{share:share} of the measured kernel time is bound by the vector unit (VEC)",
    "finding.pipes.title.none": "{share:share} of the measured kernel time fills no pipe of the core",
    "finding.pipes.detail": (
        "MAC {mac:share}, MTE2 {mte2:share}, VEC {vec:share}, no pipe {none:share} of the measured kernel time. "
        "Most time: {kernels:and}."
    ),
    "finding.pipes.place": "MAC {mac:share}, MTE2 {mte2:share}, VEC {vec:share}",
    "finding.cache.title": "{share:share} of the kernel time hits the L2 cache less than {least:share} of the time",
    "finding.cache.detail": "The mean hit rate is {mean:share}. Most time at low rates: {kernels:and}.",
    "finding.cache.place": "L2 hit rate {rate:share}",
    "finding.mfu.title": "Matrix products use {mfu:share} of the device's peak (MFU)",
    "finding.mfu.detail": (
        "{count:matrix product|matrix products} of {tflops:.2f} TFLOP reach {share:share} of {peak:.1f} TFLOPS "
        "while they run. Farthest from it: {kernels:and}."
    ),
    "finding.mfu.place": "{share:share} of the peak",
    "finding.formats.title": (
        "{count:kernel converts|kernels convert} formats or layouts: {time:time} ({share:share} of the kernel time)"
    ),
    "finding.formats.detail": "Between neighbours: {groups:list}.",
    "finding.formats.group": "{source} → {target} between {before} and {after} {count:count}× {time:time}",
    "finding.formats.place": "{source} → {target}",
    "finding.vectors.title": (
        "{count:vector kernel moves|vector kernels move} data below {share:share} of the best, {best:.0f} GB/s"
    ),
    "finding.vectors.detail": "They take {time:time} ({part:share} of the kernel time): {names:and}.",
    "finding.vectors.place": "{size:size} at {speed:.1f} GB/s",
    "finding.slow_link.slow": (
        "{count:transfer|transfers} over {transport} at {speed:.1f} GB/s, below {least:.1f} ({time:time})"
    ),
    "finding.slow_link.contended": (
        "{count:transfer|transfers} over {transport} at {speed:.1f} GB/s, below {least:.1f} ({time:time}), "
        "{contended} of them during a matrix product"
    ),
    "finding.slow_link.place": "{size:size} over {transport} at {speed:.1f} GB/s",
    "finding.preprocess.title": "Data preprocessing takes {time:time}, most of it in {name}",
    "finding.preprocess.detail": "{count:row|rows} of data_preprocess.csv: {names:and}.",
    "finding.preprocess.place": "preprocessing",
    "finding.pressure.place": "{size:memory} reserved",
    "finding.pressure.peak": "memory peak",
    "finding.growth.title": (
        "The allocator takes memory from the device {count:time|times} inside the steps, {size:memory} in total"
    ),
    "finding.growth.detail": "Each time, the driver allocates while the step waits. It happens at {names:and}.",
    "finding.growth.unknown": "Each time, the driver allocates while the step waits.",
    "finding.growth.place": "{size:memory} more reserved",
    "finding.leak.title": "Memory grows by {size:memory} a step over {count:step|steps}",
    "finding.leak.detail": (
        "What is allocated at the end of a step grew by {size:memory}. Allocated in these steps and kept: {names:and}."
    ),
    "finding.leak.unknown": "What is allocated at the end of a step grew by {size:memory}.",
    "finding.leak.holder": "{name} {size:memory}",
    "finding.leak.end": "end of a step",
    "finding.leak.place": "{size:memory} allocated",
    "finding.needs.shapes": "needs kernel_details.csv with shapes; profile at Level1 or above",
    "finding.needs.peak": "needs the setting peak_tflops or a chip whose peak is known, and kernel_details.csv with shapes",
    "finding.needs.l2_cache": "needs l2_cache.csv with hit rates; profile with l2_cache=True",
    "finding.needs.transfers": "needs communication.json with transfers; profile several ranks at Level1 or above",
    "finding.needs.preprocess": "needs data_preprocess.csv; profile at Level1 or above with AI CPU operators",
    "finding.advice.block_dim": "Check tiling: the number of blocks should be a multiple of the cores.",
    "finding.advice.larger_shapes": (
        "Use shapes that give every core work: larger batches, or dimensions that split evenly."
    ),
    "finding.advice.narrow_types": (
        "Cast to types that the AI core computes: int32 instead of int64, float32 instead of float64."
    ),
    "finding.advice.pipes_mac": "The cube is busy: only fewer operations or a narrower type make these kernels faster.",
    "finding.advice.pipes_mte2": (
        "Reading is the limit: fuse with neighbours, keep data in the L2 cache, use narrower types."
    ),
    "finding.advice.pipes_vec": "The vector unit is the limit: fuse elementwise kernels, use narrower types.",
    "finding.advice.pipes_none": (
        "No pipe is busy: shapes are too small for a core or tiling is poor; larger shapes and fused operators help."
    ),
    "finding.advice.cache_tiling": (
        "Run kernels that share data next to each other, and check tiling and data sizes against the L2 cache."
    ),
    "finding.advice.mfu": (
        "Raise the share of matrix work first (dispatch, communication), then the sizes of the products."
    ),
    "finding.advice.formats": (
        "Remove the conversions: set torch_npu.npu.config.allow_internal_format = False, or keep one format "
        "along the chain."
    ),
    "finding.advice.formats_group": "Group operators that use the same format, so that data are converted once.",
    "finding.advice.vector_layout": "Use contiguous tensors with an inner axis that is a multiple of 32 bytes.",
    "finding.advice.slow_link": "Check the links (hccn_tool, topology) and whether the job shares them.",
    "finding.advice.preprocess": "Move preprocessing off the device, or start it a step earlier.",
    "finding.advice.warm_pool": (
        "Let the first steps allocate the largest batch, so that the pool has its size before the others."
    ),
    "finding.advice.leak": "Look for tensors that are kept across steps: lists of losses, caches, hooks.",
    "finding.advice.leak_detach": "Keep numbers instead of tensors: loss.detach(), or .item() every N steps.",
    "explain.input.shapes": "shapes in kernel_details.csv (Level1)",
    "explain.input.peak": "the setting peak_tflops or a chip whose peak is known, and shapes in kernel_details.csv",
    "explain.input.l2_cache": "l2_cache.csv",
    "explain.input.transfers": "communication.json (Level1)",
    "explain.input.preprocess": "data_preprocess.csv",
    "explain.KERNEL.CORES": (
        "Kernels leave cores idle. A kernel runs in rounds of as many blocks as there are cores; in the last "
        "round some cores have no block. The number of cores is a setting (cube_cores, vector_cores); without it "
        "the cycles of the kernels tell, else the largest Block Dim."
    ),
    "explain.KERNEL.AICPU": (
        "Kernels run on the AI CPU because of their data types. The AI core has no kernel for most 64-bit types, "
        "so kernel_details.csv shows them on AI_CPU, many times slower."
    ),
    "explain.KERNEL.PIPE": (
        "What the kernels are bound by. The AI core metrics tell how long each pipe of the core was busy: the "
        "cube (MAC), reading (MTE2), the vector unit (VEC). A kernel is bound by a pipe that is busy nearly all "
        "its time; where none is, its shape or tiling is poor. The shapes with most of that time are named."
    ),
    "explain.MEM.L2": (
        "Kernels find little of their data in the L2 cache. l2_cache.csv has the hit rate of every task; the "
        "share is of the time of kernels whose rate is known."
    ),
    "explain.MFU": (
        "Model FLOPS utilization: operations of the matrix products, by their shapes, over the time of the "
        "device and its peak: peak_tflops, else that of the chip in 16-bit floating point where a database names one, and "
        "then of products in such types only."
    ),
    "explain.OP.FORMAT": (
        "Format conversions, by what they convert and the operators on both sides: TransData and Transpose "
        "kernels with the formats of kernel_details.csv. Where both neighbours use one format, the conversions "
        "between them can go."
    ),
    "explain.MEM.VECTOR": (
        "Large vector kernels are far from the bandwidth that others reach. Bytes are those of inputs and "
        "outputs, each touched once; the best is the 90th percentile of the profile, or the setting memory_gb_s."
    ),
    "explain.COMM.PACKETS": (
        "Small or unaligned packets, by communication.json. SDMA and RDMA are counted apart; HCCS, PCIE and SIO "
        "are links whose data SDMA moves. Where the plane tasks are in the trace, COMM.LINK says the same of "
        "every transfer."
    ),
    "explain.COMM.BANDWIDTH": (
        "Transfers are slow although their packets are large, by communication.json. Where a matrix product runs "
        "at the same time, both compete for the same memory."
    ),
    "explain.DATA.PREPROCESS": "Data preprocessing takes long, by data_preprocess.csv.",
    "explain.MEM.GROWTH": (
        "The allocator takes memory from the device inside the steps. Reserved memory in memory_record.csv grows "
        "when the pool has no block that fits; each time the driver allocates, which is slow. The first step, "
        "where the pool fills, does not count."
    ),
    "explain.MEM.LEAK": (
        "Memory grows from step to step. What is allocated at the end of each step, by memory_record.csv, must "
        "grow in every step. What was allocated meanwhile and kept is named by operation."
    ),
    "threshold.growth_mb": "growth of reserved memory that counts, MB (own choice: a block of the pool)",
    "threshold.growth_fewest": "fewest times it grows inside the steps (own choice)",
    "threshold.leak_mb": "growth of allocated memory from step to step, MB (own choice)",
    "threshold.leak_steps": "fewest steps over which it must grow (own choice)",
    "threshold.block_dim_us": "a kernel counts for Block Dim from here on, us (msprof-analyze advisor: 20 us)",
    "threshold.block_dim_share": "core time in idle cores as a share of the kernel time (own choice: 10 %)",
    "threshold.cube_cores": (
        "cube cores of the device; 0: as the cycles of the kernels tell, else the largest Block Dim"
    ),
    "threshold.vector_cores": (
        "vector cores of the device; 0: as the cycles of the kernels tell, else the largest Block Dim"
    ),
    "threshold.mac_bound": "mac_ratio of a kernel that the cube limits (msprof-analyze advisor: 0.8)",
    "threshold.vec_bound": "vec_ratio of a kernel that the vector unit limits (msprof-analyze advisor: 0.75)",
    "threshold.pipe_share": "share of the measured kernel time bound by one pipe (own choice: 10 %)",
    "threshold.l2_hit": "L2 hit rate below which a kernel counts (own choice: half)",
    "threshold.l2_share": "share of the kernel time in such kernels (own choice: 20 %)",
    "threshold.peak_tflops": "peak of the device in the type of its matrix products, TFLOPS; 0: by the chip that a database names, for 16-bit floating point",
    "threshold.format_share": "share of the kernel time in format conversions (own choice: 5 %)",
    "threshold.vector_mb": "a vector kernel counts from this size on, MB (own choice)",
    "threshold.vector_slow": "share of the best bandwidth below which it is slow (own choice: 25 %)",
    "threshold.vector_share": "share of the kernel time in slow vector kernels (as severity_medium)",
    "threshold.memory_gb_s": "memory bandwidth of the device, GB/s; 0: the best of the profile",
    "threshold.rdma_gb_s": "RDMA bandwidth below which a transfer is slow, GB/s (msprof-analyze advisor: 0.8 of 12.5)",
    "threshold.slow_share": "share of the transfer time in slow transfers (own choice: 20 %)",
    "threshold.preprocess_ms": "data preprocessing counts from here on, ms (as loader_ms)",
}
