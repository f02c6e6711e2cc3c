"""The texts of findings: titles for a table row, details, evidence, advice."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "finding.between": "between {start:time} and {end:time}",
    "finding.place": "{place} in {function}()",
    "finding.lines": "{file}:{lines:and}",
    "finding.timed": "{name} {time:time}",
    "finding.counted": "{name} {count:count}",
    "finding.steps.every": "It shows in every step.",
    "finding.steps.one": "It shows in step {step} only, of {first}–{last}.",
    "finding.steps.some": "It shows in {count} of {all} steps: {steps:and}.",
    "finding.verdict.warm_up": ("Step {step} is left out as warm-up: it takes {time:time}, the others {usual:time}."),
    "finding.outlook.rest": "{gain:time} of it remain after fix 1.",
    "finding.outlook.rest_many": "{gain:time} of it remain after fixes 1–{above}.",
    "finding.outlook.step": "That is {gain:time} per step.",
    "finding.outlook.next": "The step then takes about {step:time}, and {following} leads.",
    "finding.outlook.last": "The step then takes about {step:time}.",
    "finding.outlook.part": "Part of {whole}.",
    "finding.outlook.idle": "Fixing it gains nothing: something else takes as long at the same time.",
    "finding.outlook.intervals": "This run cannot be replayed, so gains are lengths of intervals.",
    "finding.unknown": "unknown",
    "finding.nothing": "the end",
    "finding.rank": "rank {rank} was",
    "finding.ranks": "ranks {ranks:and} were",
    "finding.speed": "at {speed:speed}",
    "finding.speeds": "at {low:speed} to {high:speed}",
    "finding.device": "device {device}: {text}",
    "finding.class.dispatch": "DISPATCH",
    "finding.class.compute": "COMPUTE",
    "finding.class.communication": "COMMUNICATION",
    "finding.class.memory": "MEMORY",
    "finding.class.config": "SETTINGS",
    "finding.class.data": "DATA",
    "finding.bound.dispatch": "dispatch",
    "finding.bound.compute": "compute",
    "finding.bound.communication": "communication",
    "finding.stage.python": "Python",
    "finding.stage.cann": "CANN",
    "finding.stage.both": "Python and CANN",
    "finding.stage.host": "The host",
    "finding.cause.sync": "the host waited for the device",
    "finding.cause.communication": "a long collective or event wait",
    "finding.cause.copy": "a long copy",
    "finding.cause.aicpu": "an AI CPU kernel",
    "finding.cause.compile": "operator compilation",
    "finding.cause.memory": "device memory allocation",
    "finding.cause.gc": "Python garbage collection",
    "finding.cause.dataloader": "fetching a batch",
    "finding.cause.python": "Python between two operations",
    "finding.verdict.then": "then {line}",
    "finding.verdict.line": "{what}: {title}",
    "finding.verdict.healthy": (
        "No significant bottleneck: the device computes {compute:share} of {total:time}; {free:share} is free."
    ),
    "finding.verdict.no_device": "No device time in this trace, so there is nothing to judge.",
    "finding.verdict.title": "The job is {bound}-bound",
    "finding.verdict.detail": (
        "Of the device time, {late:time} ({late_share:share}) is waiting for launches, {exposed:time} "
        "({exposed_share:share}) exposed communication and {compute:time} ({compute_share:share}) computing."
    ),
    "finding.util.title": "The device computes {compute:share} of its time and is busy for {busy:share}",
    "finding.util.fine": (
        "The device computes {compute:share} of {total:time} and is busy for {busy:share}: little time is left "
        "outside the kernels."
    ),
    "finding.util.room": (
        "The device computes {compute:share} of {total:time} and is busy for {busy:share}: there is room between "
        "the kernels."
    ),
    "finding.util.poor": (
        "The device computes {compute:share} of {total:time} and is busy for {busy:share}: most of its time does "
        "no computing."
    ),
    "finding.free.title": "The device is free for {time:time}, {share:share} of its time",
    "finding.free.detail": "{count:free interval|free intervals}, {time:time} in total. {cause}",
    "finding.free.split": (
        "In {late:share} of it the launch had not been made yet (the host is late); in {side:share} it had (the "
        "device is slow to start)."
    ),
    "finding.free.unknown": (
        "Without HostToDevice links it is unknown whether the host is late; Free includes copies and event waits."
    ),
    "finding.free.place": "{time:time} free until {after}",
    "finding.vertical.title": "{who} launches too late: the NPU loses {lost:time} {where}",
    "finding.vertical.starved": "{starved} of {links} launches found the device idle.",
    "finding.vertical.stage.python": (
        "The dequeue thread was idle for {idle:share} of the host-late time, so the Python stage is slow, not the "
        "CANN stage."
    ),
    "finding.vertical.stage.cann": (
        "The dequeue thread was idle for only {idle:share} of the host-late time, so the CANN stage is slow, not "
        "the Python stage."
    ),
    "finding.vertical.call": "{name} {time:time} in {count:call|calls}",
    "finding.vertical.calls": "While the device waited, the host was in {calls:and}.",
    "finding.vertical.line": "{line} {lost:time}",
    "finding.vertical.lines": "Most of it by line: {lines:and}.",
    "finding.vertical.site": (
        "{place} repeatedly wait for the device: {lost:time} lost for {device:time} of NPU work."
    ),
    "finding.vertical.side": "Another {time:time} in this stretch are device-side gaps (launch on time).",
    "finding.vertical.range": "starved launches",
    "finding.vertical.range_note": (
        "{lost:time} lost, {near} of {links} launches near-vertical, device idle {idle:share}"
    ),
    "finding.vertical.waited": "the idle device waited {lost:time} for this launch",
    "finding.vertical.verdict": (
        "DISPATCH: {who} launches too late: {lost:time} lost {where} "
        "(device idle {idle:share}, {starved} of {links} launches starved)."
    ),
    "finding.vertical.verdict_many": (
        "DISPATCH: {who} launches too late: {lost:time} lost ({starved} of {links} launches starved)."
    ),
    "finding.caveat.profiled": "Caveat: profiled with {settings:and}, which slows the host down; confirm without.",
    "finding.stage.title.python": "The Python stage fills the task queue too slowly: {time:time}",
    "finding.stage.title.cann": "The CANN stage empties the task queue too slowly: {time:time}",
    "finding.stage.detail.python": (
        "The dequeue thread had nothing to do for {idle:share} of the {late:time} in which the device waited for a "
        "launch."
    ),
    "finding.stage.detail.cann": (
        "The dequeue thread was idle for only {idle:share} of the {late:time} in which the device waited for a "
        "launch: its own calls take the time."
    ),
    "finding.stage.title.both": "Python and CANN are both too slow for the device: {time:time}",
    "finding.stage.detail.both": (
        "The dequeue thread was idle for {idle:share} of the {late:time} in which the device waited for a launch: about as "
        "often as not, so both stages take the time."
    ),
    "finding.stage.place": "{time:time} without a launch",
    "finding.interrupt.title": "The device ran dry {count:time|times}, {time:time} in total",
    "finding.interrupt.detail": (
        "{count:pause|pauses} of 100 µs or more with no launch in flight; {filled} of them cut off a filled queue. "
        "Causes: {causes:and}."
    ),
    "finding.interrupt.cause": "{cause} {count}× ({time:time})",
    "finding.interrupt.place": "after {before}, until {after}",
    "finding.sync.title": "Host syncs leave the device idle: {lost:time}",
    "finding.sync.title_lines": "{lines} sync with the NPU: {lost:time} lost on {tasks:task|tasks} of {device:time}",
    "finding.sync.detail": (
        "{count:host sync|host syncs}, {long} of {least:limit} or more, {blocked:time} in total; the longest took "
        "{longest:time}, {what}."
    ),
    "finding.sync.site": (
        "{lines} in {function}() read results back while launching: {tasks:task|tasks} with {device:time} of "
        "device work leave the device idle for {lost:time}."
    ),
    "finding.sync.blocking": (
        "A sync follows {share:share} of the launches immediately, as with ASCEND_LAUNCH_BLOCKING=1."
    ),
    "finding.sync.place": "the host is blocked, {what}",
    "finding.sync.waited.nothing": "until device done",
    "finding.sync.waited.compute": "until {name} is done",
    "finding.sync.waited.communication": "until {name} is done",
    "finding.sync.waited.copy": "until the copy {name} is done",
    "finding.compile.title": (
        "{count:operator compile|operator compiles}: {time:time} host, {starved:time} device idle"
    ),
    "finding.compile.detail": (
        "Operators were compiled {count:time|times} while the job ran: {time:time} of host time ({share:share} of "
        "the device time). The idle device waited for {starved:time} of it; other work hides the rest."
    ),
    "finding.compile.place": "an operator is compiled before its launch",
    "finding.start.title": "{time:time} from the start of the step to its first kernel ({where})",
    "finding.start.detail": (
        "The device has no work for the first {time:time} of a {step:time} step ({share:share}); Free does not "
        "include this."
    ),
    "finding.start.parts": "It consists of {parts:and}.",
    "finding.start.part": "{name} {time:time}",
    "finding.start.loader": "dataloader",
    "finding.start.unrecorded": "{time:time} with nothing recorded",
    "finding.start.waited": "The host is blocked for {time:time} of it; the copies it waits for take {copy:time}.",
    "finding.start.nothing": "nothing recorded",
    "finding.start.name": "step start",
    "finding.start.place": "{time:time} before the first kernel of the step",
    "finding.start.verdict": "DISPATCH: {time:time} ({share:share} of the step) pass before the first kernel.",
    "finding.small.title": "{share:share} of the kernels are shorter than {least:limit}",
    "finding.small.detail": (
        "{count:count} of {all:count} kernels, median {median:time}; the host launches one every {interval:time}, "
        "and the device waited {lost:time} for them. Most frequent: {types:and}."
    ),
    "finding.small.place": "shorter than its launch",
    "finding.optimizer.title": "Optimizer {name} is not fused: {time:time} of host time per step",
    "finding.optimizer.detail": (
        "Optimizer.step#{name}.step ran {count:time|times}, {time:time} on the host; the device waited {lost:time} "
        "for its launches."
    ),
    "finding.optimizer.place": "NpuFused{name} needs only a few launches for this",
    "finding.straggler.title.one": (
        "Rank {ranks:and} is late and this rank waits: saves up to {gain:time} of {total:time} ({share:share})"
    ),
    "finding.straggler.title.many": (
        "Ranks {ranks:and} are late and this rank waits: saves up to {gain:time} of {total:time} ({share:share})"
    ),
    "finding.straggler.title.wandering": (
        "Another rank is late each time (ranks {ranks:and}) and this rank waits: saves up to {gain:time} of "
        "{total:time} ({share:share})"
    ),
    "finding.straggler.title.ring": (
        "This rank waits for its neighbour {ranks:and}: saves up to {gain:time} of {total:time} ({share:share}); who is "
        "late is not visible from this rank"
    ),
    "finding.straggler.worst": (
        "At {name}, {others} there by {there:moment}; rank {rank} came {excess:time} later (a Notify_Wait of "
        "{wait:time})."
    ),
    "finding.straggler.case": "{name} ({excess:change})",
    "finding.straggler.each": "Waited for {rows:and}.",
    "finding.straggler.of_rank": "rank {rank} {time:time} in {count:collective|collectives}",
    "finding.straggler.ring": (
        "A RING shows only the ranks beside this one: any rank of it that is late makes them late as well."
    ),
    "finding.straggler.again": "Last again in {cases:and}.",
    "finding.straggler.transfers": (
        "After the last arrival the transfers take {time:time} {speed}, so bucket size, overlap and HCCL settings "
        "will not help."
    ),
    "finding.straggler.steps": "Seen in {seen} of {all:step|steps}.",
    "finding.straggler.on_disk": "The profile of rank {rank} is next to this one: open it.",
    "finding.straggler.not_on_disk": "Rank {rank} is not on disk.",
    "finding.straggler.place": "all others wait {excess:time} for rank {rank}; arrivals: {arrivals:list}",
    "finding.straggler.arrival": "r{rank} {after:change}",
    "finding.straggler.verdict.one": (
        "COMMUNICATION, not this rank: {gain:time} ({share:share}) is waiting for rank {ranks:and} alone. The transfers "
        "themselves take {transfer:time}."
    ),
    "finding.straggler.verdict.many": (
        "COMMUNICATION, not this rank: {gain:time} ({share:share}) is waiting for ranks {ranks:and}. The transfers "
        "themselves take {transfer:time}."
    ),
    "finding.straggler.verdict.wandering": (
        "COMMUNICATION, not this rank: {gain:time} ({share:share}) is waiting, for another rank each time. The "
        "transfers themselves take {transfer:time}."
    ),
    "finding.straggler.verdict.ring": (
        "COMMUNICATION, not this rank: {gain:time} ({share:share}) is waiting for a rank that is not visible from "
        "this one. The transfers themselves take {transfer:time}."
    ),
    "finding.exposed.title": "{time:time} of exposed communication ({share:share})",
    "finding.exposed.detail": (
        "{count:collective|collectives}: {time:time} ({share:share}) of the device time is communication alone; "
        "computing hides {hidden:share} of all communication."
    ),
    "finding.exposed.more": "There is more communication ({communication:time}) than computing ({computing:time}).",
    "finding.exposed.late": (
        "{waited:time} of it is waiting for rank {ranks:and}: fix that first, overlap does not help against it."
    ),
    "finding.exposed.waited": "{waited:time} of it is waiting: these collectives take far longer than others of their size.",
    "finding.exposed.unknown": (
        "Without plane tasks (Level1 or above), waiting for a late rank cannot be told from transfers."
    ),
    "finding.exposed.place": "{time:time} of it exposed",
    "finding.exposed.verdict_rest": "COMMUNICATION: another {time:time} ({share:share}) is exposed.",
    "finding.exposed.verdict_waited": (
        "COMMUNICATION: {time:time} ({share:share}) is waiting for a rank that Level0 does not name."
    ),
    "finding.exposed.verdict": "COMMUNICATION: {time:time} ({share:share}) is exposed.",
    "finding.long.title": "{name} takes {time:time} ({share:share})",
    "finding.long.detail": "{name} takes {time:time}, {share:share} of the device time.",
    "finding.long.timing": (
        "On its master plane: waiting {wait:time}, moving data {transit:time} ({speed} over all planes), idle "
        "{idle:time}."
    ),
    "finding.long.not_bandwidth": "Bandwidth is not the problem: the transfer takes a tenth of the time or less.",
    "finding.long.peer": "Its longest wait is {wait:time}, for rank {rank}.",
    "finding.long.place": "{time:time}",
    "finding.link.title": "{first}",
    "finding.link.titles": "{count:thing slows|things slow} the hardware links down",
    "finding.link.sentence": "{text}.",
    "finding.link.unaligned": (
        "{count:collective moves|collectives move} data not aligned to {bytes} bytes ({share:share} of the "
        "transfer time)"
    ),
    "finding.link.small": "{share:share} of the {kind} packets are smaller than {most:g} MB",
    "finding.link.contention": (
        "{count:SDMA collective runs|SDMA collectives run} below {speed:g} GB/s during a matrix multiplication"
    ),
    "finding.link.again": "{count:collective spends|collectives spend} seconds in RDMA: packets are retransmitted",
    "finding.share.title": "{kind} take {share:share} of the compute time",
    "finding.share.part": "{kind} take {share:share} of the compute time (more than {most:percent}): {types:and}.",
    "finding.share.cube": "Convolutions and matrix products",
    "finding.share.copy": "Format conversions and copies",
    "finding.share.layout": "Transposes and reshapes",
    "finding.share.softmax": "Softmax operators",
    "finding.dominant.title": "{name} takes {share:share} of the compute time",
    "finding.dominant.detail": (
        "{count:kernel|kernels} of type {name}: {time:time} in total ({share:share}), {average:time} on average, "
        "{longest:time} at most."
    ),
    "finding.dominant.place": "among the longest of its type",
    "finding.bound.cpu_title": "{count:kernel runs|kernels run} on the AI CPU: {time:time} of device time",
    "finding.bound.cpu": (
        "{count:kernel|kernels} of {least:limit} or more on the AI CPU, {time:time} in total: {names:and}."
    ),
    "finding.bound.dynamic_title": "All {count:count} kernels were compiled for dynamic shapes",
    "finding.bound.dynamic": (
        "None of {count:count} kernels has a static shape (kernel_details.csv, OP State), so no graph is compiled."
    ),
    "finding.bound.place": "runs on the AI CPU",
    "finding.outlier.title": "{count:call is an outlier|calls are outliers}, {name} first: {time:time} above the median",
    "finding.outlier.detail": "Among equal calls: {kernels:and}.",
    "finding.outlier.kernel": "{name} {count}×, up to {longest:time} where the median is {median:time}",
    "finding.outlier.place": "the median of this kernel is {median:time}",
    "finding.pause.title": "{count:pause|pauses} of the host without a record: {time:time}",
    "finding.pause.verdict": "DISPATCH: {count:pause|pauses} of the host without a record cost {time:time}",
    "finding.pause.detail": (
        "{count:pause holds|pauses hold} {share:share} of the time the device waits for the host, and no operation, call or frame "
        "begins meanwhile. CPU binding and launch settings do not help here."
    ),
    "finding.pause.place": "nothing recorded for {time:time}",
    "finding.dtype.title": "{share:share} of the matrix work is in 32-bit floating point",
    "finding.dtype.detail": "{share:share} of {time:time} of matrix work reads FLOAT: {names:and}.",
    "finding.bandwidth.title": "{share:share} of the kernel time waits for memory",
    "finding.bandwidth.detail": (
        "Kernels of {time:time} ({share:share}) spend nearly all their time reading memory (MTE2): {names:and}."
    ),
    "finding.affinity.title": "Could use {api}{more}",
    "finding.affinity.more": ", and {count} more",
    "finding.affinity.api": "One call can replace each of these runs of operations: {runs:and}.",
    "finding.affinity.kernel": "One operator can replace each of these runs of kernels: {runs:and}.",
    "finding.affinity.run": "{words} {count}×, {time:time} on the device → {api}",
    "finding.affinity.lines": "Called from {lines:and}.",
    "finding.affinity.place": "could use {api}",
    "finding.loader.title": "A batch takes up to {time:time} to fetch; the device waits {waits:time}",
    "finding.loader.detail": (
        "{count:slow fetch|slow fetches}, {mean:time} on average, {longest:time} at most; the device was idle for "
        "{idle:time} of it."
    ),
    "finding.loader.place": "fetching a batch",
    "finding.loader.verdict": "DATA: the device waits {waits:time} per step for the next batch.",
    "finding.copy.title": "Copies take {time:time} of device time ({share:share})",
    "finding.copy.detail": (
        "{count:copy|copies}, {time:time} in total, {exposed:time} of it with no other work; {blocking} of the "
        "calls block the host."
    ),
    "finding.copy.place": "a copy between host and device",
    "finding.allocation.title": "Memory calls take {time:time}; {lost:time} device idle",
    "finding.allocation.detail": (
        "{calls:and}; the device ran dry {drains:time|times} during them, {lost:time} in total."
    ),
    "finding.allocation.call": "{name} {count}× {time:time}",
    "finding.allocation.place": "device memory is allocated or freed",
    "finding.pressure.title": "{reserved:.1f} GB reserved, {ratio:.2f} times what is allocated",
    "finding.pressure.detail": (
        "At its peak the allocator holds {reserved:.1f} GB for {allocated:.1f} GB of tensors; the rest is "
        "fragmentation."
    ),
    "finding.pressure.full_title": "Memory is nearly full: {reserved:.1f} of about {capacity:.0f} GB",
    "finding.pressure.full": (
        "At its peak the process holds {reserved:.1f} GB. A device of {capacity:.0f} GB has little more to give: "
        "allocations may fail, or free and take memory again inside the step."
    ),
    "finding.gc.title": "Garbage collection runs {count:time|times}, {time:time}",
    "finding.gc.detail": (
        "{count:collection|collections}, {time:time} in total; the device was idle for {idle:time} of it."
    ),
    "finding.gc.place": "garbage collection",
    "finding.gc.suspect_title": "{count:long pause|long pauses} without any call ({time:time}): garbage collection?",
    "finding.gc.suspect": (
        "{count:time|times} the device is free for more than {least:limit} while the host makes no CANN call. "
        "Python garbage collection is the usual reason."
    ),
    "finding.gc.suspect_place": "no call recorded",
    "finding.frequency.title": "The AI cores run {drop:share} below their full clock",
    "finding.frequency.detail": (
        "{count:count} of {all:count} kernels ran at a lower clock, {drop:share} lower on average."
    ),
    "finding.frequency.place": "below the full clock",
    "finding.environment.title": "Environment: {first}{more}",
    "finding.environment.detail": "Check {names:and}.",
    "finding.environment.queue": (
        "There are no Enqueue slices: the task queue is off (TASK_QUEUE_ENABLE=0), so Python makes every launch itself."
    ),
    "finding.environment.ASCEND_GLOBAL_LOG_LEVEL": (
        "Set ASCEND_GLOBAL_LOG_LEVEL=3 (errors only): other levels write logs during launches."
    ),
    "finding.environment.set_queue": "Set TASK_QUEUE_ENABLE=1, or 2 where memory allows: a second thread then launches.",
    "finding.environment.HCCL_RDMA_TC": "Unset HCCL_RDMA_TC unless the network needs it.",
    "finding.environment.HCCL_RDMA_SL": "Unset HCCL_RDMA_SL unless the network needs it.",
    "finding.environment.ACLNN_CACHE_LIMIT": "Set ACLNN_CACHE_LIMIT=100000 to keep more aclnn executors.",
    "finding.environment.HOST_CACHE_CAPACITY": "Set HOST_CACHE_CAPACITY=20 to keep host tiling data.",
    "finding.environment.PYTORCH_NPU_ALLOC_CONF": (
        "Set PYTORCH_NPU_ALLOC_CONF=expandable_segments:True against fragmentation."
    ),
    "finding.environment.ASCEND_LAUNCH_BLOCKING": "Unset ASCEND_LAUNCH_BLOCKING: it waits after every launch.",
    "finding.environment.HCCL_ALGO": "Unset HCCL_ALGO so that HCCL chooses its algorithm.",
    "finding.profiler.title": "Likely profiler overhead: ~{gap:about} before {count:kernel|kernels}",
    "finding.profiler.detail": (
        "{count:count} of {all:count} kernels that were launched on time start {low:limit} to {high:limit} after "
        "the previous kernel, and almost none sooner: {time:time} in total, against {computing:time} of computing. "
        "The profiler is the likely cause, not the model; this is not proven. {settings}"
    ),
    "finding.profiler.settings": "Profiled with {names:and}.",
    "finding.profiler.name": "pause after a kernel",
    "finding.profiler.place": "{time:time} although the next kernel had been launched",
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
    "finding.advice.mixed_precision": (
        "Use torch.npu.amp.autocast or bf16: half the time and memory of matrix work; watch the loss."
    ),
    "finding.advice.bandwidth": "Fuse with neighbours so that data stay on the chip; check tiling.",
    "finding.advice.outlier_shape": "Compare the input shapes of the slow calls with those of the others (record_shapes).",
    "finding.advice.outlier_neighbour": "See what ran on other streams at the same time: communication or copies take bandwidth.",
    "finding.advice.pause_look": "Look at what the program does there: a checkpoint, an evaluation, a log, data or a lock.",
    "finding.advice.pause_record": "Profile with with_stack, or mark parts with record_function, to see the line.",
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
    "finding.needs.device": "no device layer with a slice that keeps the device busy",
    "finding.needs.links": "no HostToDevice link ends in a busy slice",
    "finding.needs.overlap": "no device time: neither Overlap Analysis nor a compute slice",
    "finding.needs.cann": "no CANN slices; profile at Level1 or above",
    "finding.needs.python": "no Python layer; profile with the CPU activity",
    "finding.needs.planes": "no plane tasks of collectives; profile several ranks at Level1 or above",
    "finding.needs.steps": "no ProfilerStep#N that launched anything",
    "finding.needs.frequency": "no AI Core Freq counter in the trace",
    "finding.needs.kernel_details": "needs kernel_details.csv next to the trace",
    "finding.needs.pmu": "needs kernel_details.csv with AI core metrics (aic_mte2_ratio); profile with aic_metrics",
    "finding.needs.metadata": "needs profiler_metadata.json in the directory above the trace",
    "finding.needs.memory": (
        "needs memory_record.csv with PTA rows next to the trace; profile with profile_memory=True"
    ),
    "finding.needs.links_fewest": "only {count:launch|launches}; a verdict needs {fewest}",
    "finding.needs.dequeue": "no Dequeue slices on one clock: the slow stage of the host is unknown",
    "finding.kind.dispatch": "dispatch",
    "finding.kind.compute": "compute",
    "finding.kind.communication": "communication",
    "finding.kind.memory": "memory",
    "finding.kind.config": "config",
    "finding.kind.data": "data",
}
