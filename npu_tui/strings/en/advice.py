"""What to do about a finding."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "finding.advice.order": (
        "Work on dispatch, then computing, then communication, each weighted by what the step loses to it."
    ),
    "finding.advice.task_queue": (
        "Set TASK_QUEUE_ENABLE=2 to move more work off the Python thread (peak memory may rise; no effect with "
        "ASCEND_LAUNCH_BLOCKING=1)."
    ),
    "finding.advice.binding": (
        "Bind threads with CPU_AFFINITY_CONF=1 (coarse) or 2 (fine), and set the CPU governor to performance."
    ),
    "finding.advice.fewer_operators": "Launch less: fused operators, foreach variants, larger batches, graph mode.",
    "finding.advice.cann_cache": (
        "Set ACLNN_CACHE_LIMIT=100000 and HOST_CACHE_CAPACITY=20 so that CANN prepares less for each launch."
    ),
    "finding.advice.jit_compile": "Use precompiled kernels: torch_npu.npu.set_compile_mode(jit_compile=False).",
    "finding.advice.jit_compile_gain": (
        "Use precompiled kernels, torch_npu.npu.set_compile_mode(jit_compile=False): saves up to {gain:time}."
    ),
    "finding.advice.internal_format": (
        "Set torch_npu.npu.config.allow_internal_format = False to avoid the format conversions that are compiled."
    ),
    "finding.advice.bucket_shapes": "Limit the number of shapes: each new shape is compiled again.",
    "finding.advice.metrics": "Compute metrics every N steps, without .item() in the loop: saves up to {gain:time}.",
    "finding.advice.metrics_rarely": (
        "Remove .item(), print and metrics from the step: log every N steps and accumulate on the device."
    ),
    "finding.advice.non_blocking": "Copy with .to(device, non_blocking=True) from pinned memory.",
    "finding.advice.launch_blocking": "Unset ASCEND_LAUNCH_BLOCKING: it is for debugging.",
    "finding.advice.device_gaps": (
        "Most of it is on the device side: check event waits, copies and gaps between kernels, not the host."
    ),
    "finding.advice.causes": "Fix the causes in order: each has its own finding or code line.",
    "finding.advice.prefetch": "Fetch and copy the next batch while the step runs (prefetch, a second stream).",
    "finding.advice.inference": (
        "Serving: set MINDIE_ASYNC_SCHEDULING_ENABLE=1 in MindIE, ATB_OPERATION_EXECUTE_ASYNC=1 (2 with spare CPU cores) for ATB, "
        "or capture the decoding of a token as a graph (torch.npu.NPUGraph)."
    ),
    "finding.advice.overlap_steps": "Do not wait for the device between steps.",
    "finding.advice.foreach": "Use foreach=True or a fused optimizer: one launch for many tensors.",
    "finding.advice.graph": "Compile the model into a graph (torchair), which needs a single launch.",
    "finding.advice.fused_optimizer": (
        "Use torch_npu.optim.NpuFused{name}, and clip_grad_norm_fused_ where gradients are clipped."
    ),
    "finding.advice.profile_rank": "Profile rank {rank} for 3 steps or more.",
    "finding.advice.compare_rank": (
        "Compare what rank {rank} does before {name}: data loading, garbage collection, host load, CPU binding."
    ),
    "finding.advice.profile_ring": "Profile all ranks of the group and compare them: the late one is not beside this one.",
    "finding.advice.late_unknown": "Profile with Level1 to see which rank is late; do not change bucket sizes before.",
    "finding.advice.no_tuning": "Leave bucket size, overlap and HCCL settings alone until that rank is on time.",
    "finding.advice.late_first": "Fix the late rank first, then look at the communication that is left.",
    "finding.advice.overlap": (
        "Overlap gradients with the backward pass: smaller buckets (bucket_cap_mb), asynchronous collectives."
    ),
    "finding.advice.accumulate": "Communicate less often: larger batches or gradient accumulation.",
    "finding.advice.mc2": (
        "Where a collective follows a matrix product, use MatmulAllReduce (torch_npu.npu_mm_all_reduce_base)."
    ),
    "finding.advice.check_peer": "Look at that rank; this rank is only the victim.",
    "finding.advice.level1": "Profile at Level1 to see which rank it waits for.",
    "finding.advice.align": "Pad buckets and tensors to {bytes} bytes.",
    "finding.advice.larger_packets": (
        "Use larger packets: larger batches or accumulation, ZeRO-1 or 2 instead of 3, a fused optimizer."
    ),
    "finding.advice.contention": "Compare with and without overlap: both share the memory bandwidth.",
    "finding.advice.rdma": "Check the RDMA links and the switches.",
    "finding.advice.share.cube": (
        "Matrix work is what the device is for: reduce it (shapes, precision) before making it faster."
    ),
    "finding.advice.share.copy": (
        "Keep one format (NC1HWC0) across neighbouring operators; allow_internal_format controls it."
    ),
    "finding.advice.share.layout": "Choose the layout once: each permute or contiguous inside the step costs a copy.",
    "finding.advice.share.softmax": (
        "Use torch_npu.npu_scaled_masked_softmax or a fused attention operator; odd shapes are slow."
    ),
    "finding.advice.dominant": "Check its shapes and what launches it.",
    "finding.advice.replace": "Look for a cheaper form (npu-tui explain OP.AFFINITY_KERNEL).",
    "finding.advice.ai_cpu": "Use types that the AI cores support (float or int32 instead of double or int64).",
    "finding.advice.ai_cpu_operators": "Replace index, index_put, nonzero and argmin with masks of a fixed shape.",
    "finding.advice.ai_cpu_other": "Use other operators in place of these, or a newer CANN: the AI cores have no kernel for them.",
    "finding.advice.mixed_precision": (
        "Use torch.npu.amp.autocast or bf16: half the time and memory of matrix work; watch the loss."
    ),
    "finding.advice.bandwidth": "Fuse with neighbours so that data stay on the chip; check tiling.",
    "finding.advice.outlier_shape": "Compare the input shapes of the slow calls with those of the others (record_shapes).",
    "finding.advice.outlier_neighbour": "See what ran on other streams at the same time: communication or copies take bandwidth.",
    "finding.advice.pause_look": "Look at what the program does there: a checkpoint, an evaluation, a log, data or a lock.",
    "finding.advice.pause_record": "Profile with with_stack, or mark parts with record_function, to see the line.",
    "finding.advice.event_order": (
        "Record the event as soon as its result is there, and wait for it as late as possible; work that must wait "
        "for another stream anyway is better put on that stream."
    ),
    "finding.advice.event_graph": "In a captured graph, check which side streams were forked during the capture and where they join.",
    "finding.advice.use": "Use {api}.",
    "finding.advice.check_numbers": (
        "Check the numerical results after each replacement; these runs are {share:share} of the computing."
    ),
    "finding.advice.workers": (
        "Set num_workers=4 and prefetch_factor=2: batches are fetched in the training process now."
    ),
    "finding.advice.workers_more": (
        "Raise num_workers and prefetch_factor, and check that taskset does not keep them on the same cores."
    ),
    "finding.advice.pin_memory": "Use pin_memory=True with non-blocking copies.",
    "finding.advice.storage": "Check the storage: no archives to unpack, no network files without a cache.",
    "finding.advice.fewer_copies": "Create tensors on the device, and merge small copies into one.",
    "finding.advice.expandable": "Set PYTORCH_NPU_ALLOC_CONF=expandable_segments:True.",
    "finding.advice.empty_cache": "Remove torch.npu.empty_cache() from the step.",
    "finding.advice.temporaries": "Delete large temporaries early (del), and write into tensors that are there (out=, in-place).",
    "finding.advice.smaller_batch": "Use a smaller batch if memory is short.",
    "finding.advice.checkpointing": "Checkpoint activations (torch.utils.checkpoint).",
    "finding.advice.gc": (
        "Call gc.freeze() after the first step and gc.set_threshold(…), or gc.disable() with a collection every N "
        "steps."
    ),
    "finding.advice.gc_record": "Profile with gc_detect_threshold to record collections.",
    "finding.advice.power": "Check temperature and power (npu-smi info -t power,temp).",
    "finding.advice.not_recorded": (
        "No profile records TASK_QUEUE_ENABLE and CPU_AFFINITY_CONF: check them where the job runs."
    ),
    "finding.advice.profile_again": "Profile again with l2_cache=False, with_stack=False and Level1, and compare.",
    "finding.advice.not_your_model": "Leave these pauses out when you compare with a run without the profiler.",
}
