"""What each finding means and the rule that finds it, for ``npu-tui explain``."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "explain.list": "Findings by class (npu-tui explain ID shows one in full):",
    "explain.row": "  {id:<19} {first}",
    "explain.unknown": "there is no finding {id}; did you mean {near}?",
    "explain.unknown_all": "there is no finding {id}; there are {ids}",
    "explain.head": "{id} · {cls}",
    "explain.inputs": "Needs: {inputs}",
    "explain.thresholds": "Thresholds:",
    "explain.threshold": "  {name} = {value}  {text}",
    "explain.advice": "What to do:",
    "explain.item": "  - {text}",
    "explain.change": "What changes, for example (- before, + after):",
    "explain.pages": "Read more:",
    "explain.page": "  {title}: {address}",
    "explain.documents": "Taken from:",
    "explain.document": "{title}, items {items}",
    "explain.input.device": "device slices",
    "explain.input.links": "HostToDevice links",
    "explain.input.overlap": "Overlap Analysis or compute slices",
    "explain.input.cann": "CANN slices (Level1)",
    "explain.input.python": "the Python layer",
    "explain.input.planes": "plane tasks of collectives (Level1)",
    "explain.input.steps": "ProfilerStep#N",
    "explain.input.frequency": "the AI Core Freq counter",
    "explain.input.kernel_details": "kernel_details.csv",
    "explain.input.pmu": "AI core metrics in kernel_details.csv",
    "explain.input.metadata": "profiler_metadata.json",
    "explain.input.memory": "memory_record.csv",
    "explain.DISPATCH.VERTICAL": (
        "The idle device waits for launches. A HostToDevice link is near-vertical where the device starts as soon as the host "
        "has launched: its queue was empty. The rule asks for enough launches, some of them starved (10 µs or more lost), more "
        "Free than free_share, and either a large share of near-vertical links or a cluster of them of some length with an "
        "idle device. Blocking copies are vertical by nature and do not count. The gain is the lost time, from when the device "
        "was ready until the launch reached it."
    ),
    "explain.DISPATCH.FREE": (
        "The device does nothing for too much of its time. Free is what Overlap Analysis leaves of computing "
        "and communication; it includes copies and event waits. Each piece is split at the launch that ends "
        "it: before that launch the host is late, after it the device is slow to start. Host advice is given "
        "only where the host is late. Where copies or fixed pauses after kernels explain all but free_share, it is info: "
        "DATA.COPY and PROFILER.OVERHEAD judge those."
    ),
    "explain.DISPATCH.STAGE": (
        "Which stage of the host is slow. The Python stage fills the task queue; in the CANN stage the dequeue "
        "thread calls CANN. Where the dequeue thread has nothing to do for half of the host-late time or more, "
        "Python is slow; otherwise CANN is, and its calls are named."
    ),
    "explain.DISPATCH.INTERRUPT": (
        "The pipeline between host and device breaks: no launch is in flight for 100 µs or more. Each pause "
        "gets the first cause that applies: a host sync, a long collective, a copy, an AI CPU kernel, operator "
        "compilation, memory allocation, garbage collection, fetching a batch, otherwise Python. Pauses that "
        "cut off a filled queue are counted separately: there a running pipeline was interrupted."
    ),
    "explain.DEVICE.EVENT": (
        "Streams wait for events of other streams while nothing else keeps the device busy, as in a captured graph with side "
        "streams. What counts is the Free time inside EVENT_WAIT tasks whose stream goes on at once after the event, less what "
        "the host launched too late. A wait is paired with the record on another stream that fires when it ends, or with the "
        "last one launched before it."
    ),
    "explain.SYNC.HOST": (
        "The host waits for the device (item(), nonzero(), synchronize, blocking copies), and then the device "
        "waits for the host. A wait alone costs nothing while the device has work; what counts is the lost "
        "time after it, and that of the lines of the training loop that contain such waits. A wait right after "
        "most launches means ASCEND_LAUNCH_BLOCKING=1."
    ),
    "explain.OP.COMPILE": (
        "Operators are compiled while the job runs (aclopCompileAndExecute). The calls are counted and their time is summed; "
        "the gain is only the part in which the idle device waited for them."
    ),
    "explain.STEP.START": (
        "The time from ProfilerStep#N to the first kernel or collective after it, as far as the device is idle "
        "(the Preparing column of step_trace_time.csv). It is not part of Free. It is usually spent on "
        "fetching and copying the batch."
    ),
    "explain.OP.SMALL": (
        "Most kernels are so short that the host cannot launch them as fast as the device runs them, and the device waits for "
        "such launches."
    ),
    "explain.OPT.FUSED": (
        "The optimizer has a fused form in torch_npu. It matters where the device waits for launches; "
        "otherwise it is only mentioned."
    ),
    "explain.COMM.STRAGGLER": (
        "This rank waits for one or several late ranks. The first Notify_Wait for each peer tells when that peer reached a "
        "collective; what counts is how much later the late ones came than all others, as far as "
        "computing does not hide it. The first receive of a step also waits for the pipeline to fill: up to one pass for "
        "each stage before it is nobody's fault."
    ),
    "explain.COMM.EXPOSED": (
        "Communication with no computing at the same time. Where half of it is waiting for a late rank, "
        "overlap does not help and that rank comes first; the saving is what remains without it."
    ),
    "explain.COMM.LONGOP": (
        "One collective takes far longer than others of its type and size, or a large part of the device time. "
        "Waiting and moving data are told apart: if the data move quickly, bandwidth is not the problem."
    ),
    "explain.COMM.LINK": (
        "The links are used inefficiently: sizes off the 512-byte grid, many small packets, slow SDMA while a matrix product runs, or "
        "seconds in RDMA. One rank alone cannot tell slow links from slow peers."
    ),
    "explain.OP.SHARE": (
        "One kind of operator takes more of the compute time than usual: format conversions and copies, transposes, softmax. "
        "Many convolutions and matrix products are only mentioned: they are what the device is for."
    ),
    "explain.OP.DOMINANT": (
        "One operator type takes a large part of the compute time. For matrix products and attention that is only mentioned."
    ),
    "explain.KERNEL.BOUND": (
        "Kernels on the AI CPU of 20 µs or more (the gain is what no other work hides), and a job whose kernels are all compiled "
        "for dynamic shapes (OP State in kernel_details.csv; not judged where the column is missing)."
    ),
    "explain.DTYPE": "Most matrix work reads 32-bit floating point: mixed precision halves it.",
    "explain.MEM.BW": "A part of the kernel time reads memory nearly all the time (MTE2 ratio): fusion and tiling help, more cores do not.",
    "explain.UTIL": "How much of its time the device computes, and how much it is busy at all. Below utilization_poor the title says so. Always info: what to change stands in the other findings.",
    "explain.VERDICT": (
        "What the job is bound by: the largest of host-late Free, exposed communication, and computing. Always info."
    ),
    "explain.OP.AFFINITY_API": (
        "Runs of top-level operations on one thread that a torch_npu API does at once. A conversion of type may stand between "
        "two members. Info below affinity_share, and where a replacement is an approximation."
    ),
    "explain.OP.AFFINITY_KERNEL": (
        "Runs of kernels that one operator does at once, and types with a cheaper form. A Cast or TransData may stand between "
        "two members."
    ),
    "explain.DATA.LOADER": (
        "Fetching a batch keeps the device idle: the outermost dataloader slice is slow, or the device is free over such slices."
    ),
    "explain.DATA.COPY": "Copies between host and device take too much time in which nothing else runs.",
    "explain.MEM.ALLOC": (
        "Device memory is allocated or freed while the job runs (aclMallocMemInner, aclrtFreePhysical, aclrtFree)."
    ),
    "explain.MEM.PRESSURE": "The allocator holds much more memory than the tensors need, in a job that needs much of it.",
    "explain.PY.GC": (
        "Python garbage collection stops the host. Where collections are not recorded, Free of more than "
        "gc_suspect_ms in which the host calls nothing is suspected, with low confidence."
    ),
    "explain.OP.OUTLIER": (
        "Calls of a kernel that take more than outlier_factor times the median of the calls of the same name and, where "
        "known, the same shapes. Names with fewer than 8 calls, or with more than a tenth of slow calls, are not judged: "
        "their sizes may differ. Nor are calls among other kernels that are as slow: there the batch or sequence is larger."
    ),
    "explain.HOST.PAUSE": (
        "A few long waits for a launch during which no host event begins. They hold at least pause_share of the "
        "host-late time. Pauses before the first kernels of steps are left to STEP.START."
    ),
    "explain.FREQ": "The AI cores run below their full clock while kernels run. Full is the highest clock recorded; a constant clock is not judged.",
    "explain.ENV/STARTUP": "Environment variables in profiler_metadata.json that cost time, and a task queue that is off.",
    "explain.PROFILER.OVERHEAD": (
        "Kernels that had been launched on time start a fixed pause after the one before, in a tight cluster "
        "with nothing below it: likely the work of the profiler itself. It is not a step of the what-if order: "
        "without the profiler it is not there."
    ),
}
