"""The texts of findings about the host and its settings: titles, details, evidence."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "finding.free.title": "The device is free for {time:time}, {share:share} of its time",
    "finding.free.detail": "{count:bubble|bubbles}, {time:time} in total. {cause}",
    "finding.free.split": (
        "In {late:share} of it the launch had not been made yet (the host is late); in {side:share} it had (the "
        "device is slow to start)."
    ),
    "finding.free.split_copied": (
        "In {late:share} of it the launch had not been made yet (the host is late), in {side:share} it had (the "
        "device is slow to start), and copies take {copied:share}."
    ),
    "finding.free.unknown": (
        "Without HostToDevice links it is unknown whether the host is late; Free includes copies and event waits."
    ),
    "finding.free.told": "{time:time} of it is copies or fixed pauses after kernels, which other findings cover.",
    "finding.free.place": "{time:time} free until {after}",
    "finding.vertical.title": "{who} launches too late: the NPU loses {lost:time} {where}",
    "finding.vertical.starved": "{starved:count} of {links:launch|launches} found the device idle.",
    "finding.vertical.stage.python": (
        "The dequeue thread was idle for {idle:share} of the host-late time, so the Python stage is slow, not the "
        "CANN stage."
    ),
    "finding.vertical.stage.both": (
        "The dequeue thread was idle for {idle:share} of the host-late time, about half of it, so both the Python stage "
        "and the CANN stage are slow."
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
        "{lost:time} lost, {near:count} of {links:launch|launches} near-vertical, device idle {idle:share}"
    ),
    "finding.vertical.waited": "the idle device waited {lost:time} for this launch",
    "finding.vertical.verdict": (
        "DISPATCH: {who} launches too late: {lost:time} lost {where} "
        "(device idle {idle:share}, {starved:count} of {links:launch|launches} starved)."
    ),
    "finding.vertical.verdict_many": (
        "DISPATCH: {who} launches too late: {lost:time} lost ({starved:count} of {links:launch|launches} starved)."
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
    "finding.interrupt.cause": "{cause} {count:count}× ({time:time})",
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
    "finding.sync.waited.nothing": "until the device is done",
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
    "finding.start.blocked": "The host is blocked for {time:time} of it.",
    "finding.start.waited": "The host is blocked for {time:time} of it; the copies it waits for take {copy:time}.",
    "finding.start.nothing": "nothing recorded",
    "finding.start.name": "step start",
    "finding.start.place": "{time:time} before the first kernel of the step",
    "finding.start.verdict": "DISPATCH: {time:time} ({share:share} of the step) pass before the first kernel.",
    "finding.small.title": "{share:share} of the kernels are shorter than {least:limit}",
    "finding.small.detail": (
        "{count:count} of {all:kernel|kernels}, median {median:time}; the host launches one every {interval:time}, "
        "and the device waited {lost:time} for them. Most frequent: {types:and}."
    ),
    "finding.small.run": "Up to {count:count} elementwise kernels follow each other ({types:and}): one expression could be one kernel.",
    "finding.small.run_at": "Up to {count:count} elementwise kernels follow each other ({types:and}), called from {lines:and}.",
    "finding.small.place": "shorter than its launch",
    "finding.optimizer.title": "Optimizer {name} is not fused: {time:time} of host time per step",
    "finding.optimizer.detail": (
        "Optimizer.step#{name}.step ran {count:time|times}, {time:time} on the host; the device waited {lost:time} "
        "for its launches, {launches:mean_count} each time where the fused one needs a few."
    ),
    "finding.optimizer.detail_hidden": (
        "Optimizer.step#{name}.step ran {count:time|times}, {time:time} on the host, which the device did not wait for; "
        "it launches {launches:mean_count} each time where the fused one needs a few."
    ),
    "finding.optimizer.place": "NpuFused{name} needs only a few launches for this",
    "finding.pause.title": "{count:pause|pauses} of the host without a record: {time:time}",
    "finding.pause.title_in": "The host pauses {count:time|times}, {time:time} in {frame}",
    "finding.pause.verdict_in": "DISPATCH: {count:pause|pauses} of the host in {frame} cost {time:time}",
    "finding.pause.place_in": "{time:time} in {frame}",
    "finding.pause.verdict": "DISPATCH: {count:pause|pauses} of the host without a record cost {time:time}",
    "finding.pause.detail": (
        "{count:pause holds|pauses hold} {share:share} of the time the device waits for the host, and no operation, call or frame "
        "begins meanwhile. CPU binding and launch settings do not help here."
    ),
    "finding.pause.place": "nothing recorded for {time:time}",
    "finding.loader.title": "A batch takes up to {time:time} to fetch; the device waits {waits:time} per {unit}",
    "finding.loader.detail": (
        "{count:slow fetch|slow fetches}, {mean:time} on average, {longest:time} at most; the device was idle for "
        "{idle:time} of it."
    ),
    "finding.loader.place": "fetching a batch",
    "finding.loader.verdict": "DATA: the device waits {waits:time} per {unit} for the next batch.",
    "finding.allocation.title": "Memory calls take {time:time}; {lost:time} device idle",
    "finding.allocation.detail": (
        "{calls:and}; the device ran dry {drains:time|times} during them, {lost:time} in total."
    ),
    "finding.allocation.drops": "torch.npu.empty_cache() is called {count:time|times} meanwhile.",
    "finding.allocation.call": "{name} {count:count}× {time:time}",
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
}
