"""What to do about a finding."""

from __future__ import annotations

TEXTS: dict[str, str] = {
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
    "finding.advice.inference": (
        "推理服务：MindIE 设置 MINDIE_ASYNC_SCHEDULING_ENABLE=1；ATB 设置 ATB_OPERATION_EXECUTE_ASYNC=1（CPU 核有余可设 2）；"
        "或把一个 token 的解码捕获为图（torch.npu.NPUGraph）。"
    ),
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
    "finding.advice.ai_cpu_other": "换用有 AI Core 实现的算子，或升级 CANN：这些算子没有 AI Core 的 kernel。",
    "finding.advice.mixed_precision": (
        "使用 torch.npu.amp.autocast 或 bf16：矩阵计算的时间和内存减半；注意观察 loss。"
    ),
    "finding.advice.bandwidth": "与相邻算子融合，让数据留在片上；检查 tiling。",
    "finding.advice.outlier_shape": "对比慢调用与其他调用的输入 shape（record_shapes）。",
    "finding.advice.outlier_neighbour": "查看同一时间其他流上在执行什么：通信或拷贝会占用带宽。",
    "finding.advice.pause_look": "查看程序在此处做什么：保存 checkpoint、评估、日志、数据或锁。",
    "finding.advice.pause_record": "打开 with_stack 采集，或用 record_function 标记代码段，即可看到代码行。",
    "finding.advice.event_order": "结果一就绪就记录 event，等待尽量靠后；反正要等另一条 stream 的工作，不如直接放到那条 stream 上。",
    "finding.advice.event_graph": "对捕获的图，检查捕获时分出了哪些旁路 stream、在哪里汇合。",
    "finding.advice.use": "使用 {api}。",
    "finding.advice.check_numbers": "每次替换后请核对数值结果；这些序列占计算的 {share:share}。",
    "finding.advice.workers": "设置 num_workers=4 和 prefetch_factor=2：目前在训练进程中取数据。",
    "finding.advice.workers_more": "增大 num_workers 和 prefetch_factor，并检查 taskset 是否把它们绑在同一批核上。",
    "finding.advice.pin_memory": "使用 pin_memory=True 和非阻塞拷贝。",
    "finding.advice.storage": "检查存储：不要边读边解压，不要使用没有缓存的网络文件。",
    "finding.advice.fewer_copies": "直接在设备上创建张量，把小拷贝合并成一次。",
    "finding.advice.expandable": "设置 PYTORCH_NPU_ALLOC_CONF=expandable_segments:True。",
    "finding.advice.empty_cache": "从 step 中去掉 torch.npu.empty_cache()。",
    "finding.advice.temporaries": "大的临时张量尽早 del，尽量写入已有张量（out=、in-place）。",
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
}
