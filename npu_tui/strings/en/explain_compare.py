"""What each finding of a comparison means, for ``npu-tui explain``."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "explain.compare": "Comparison (npu-tui compare BASE NEW)",
    "explain.compare.needs": "Needs: two profiles, BASE and NEW; times are per step, new minus base",
    "explain.DIFF.STEP": (
        "The step became longer or shorter. With four steps or more a side, the 95% interval of the Hodges-Lehmann shift "
        "decides, with an exact Mann-Whitney test (Wilcoxon for ranks of one job): the interval leaves out 0 and the change "
        "exceeds the tolerance. With fewer steps the step is unsure, and unsure is no pass."
    ),
    "explain.DIFF.STEP.do": "Read the findings above this one: they say where the difference comes from.",
    "explain.DIFF.KERNEL.NEW": (
        "Kernels that the base does not run, by type, shapes, data types, formats and core. Kernels of matched operations "
        "that only differ in these attributes are changed, not new."
    ),
    "explain.DIFF.KERNEL.NEW.do": "Look at the operation that launches them: casts, copies and format changes are often added unseen.",
    "explain.DIFF.KERNEL.GONE": (
        "Kernels that only the base runs. Check that the work is done elsewhere and was not left out by mistake."
    ),
    "explain.DIFF.KERNEL.GONE.do": "If it is not meant, compare the operations that launched them on both sides.",
    "explain.DIFF.KERNEL.SLOWER": (
        "The same kernel takes longer per call. All calls of both sides are tested (Mann-Whitney), and the tests of all "
        "kernels are corrected together (Benjamini-Hochberg at 0.1); with less than four calls the change must exceed 15%, as "
        "single calls of one kernel spread that far between equal runs."
    ),
    "explain.DIFF.KERNEL.SLOWER.do": "Check formats, clock and the versions of CANN and of the operator package on both sides.",
    "explain.DIFF.KERNEL.FASTER": "The same kernel takes less time per call, judged as a slower one is.",
    "explain.DIFF.KERNEL.FASTER.do": "Keep the change; check that shapes and data types are still the ones you mean.",
    "explain.DIFF.KERNEL.MORE": "The same kernel runs more often per step. Its difference is split into more calls and slower calls.",
    "explain.DIFF.KERNEL.MORE.do": "Look for a loop, a layer or a recomputation that was added.",
    "explain.DIFF.KERNEL.FEWER": "The same kernel runs less often per step.",
    "explain.DIFF.KERNEL.FEWER.do": "If it is not meant, look for a layer or a branch that is no longer reached.",
    "explain.DIFF.KERNEL.CHANGED": (
        "A matched operation launches a kernel of the same type with other data types, shapes, formats or another core: one "
        "changed kernel, not one gone and one new."
    ),
    "explain.DIFF.KERNEL.CHANGED.do": "Check mixed precision, batch shapes and the memory format at this operation.",
    "explain.DIFF.REPLACED": (
        "Between two matched operations the new side runs other operations than the base, such as one fused operation instead "
        "of several. Both runs are compared by the time of their kernels alone."
    ),
    "explain.DIFF.REPLACED.do": "Compare the total of both; a fused operator should take less time than those it replaces.",
    "explain.DIFF.LINE": (
        "The launches of this line of code cost the device more, or less, waiting than before (lost time). A line that only "
        "moved is the same line; --base-rev REV follows lines through git."
    ),
    "explain.DIFF.LINE.do": "Look at what the line does before it launches: Python work, reads of values, data preparation.",
    "explain.DIFF.SYNC.ADDED": (
        "Operations that read a value back from the device (item, is_nonzero, nonzero) and that the base does not have. The "
        "host waits for the device there, and the device then waits for the host."
    ),
    "explain.DIFF.SYNC.ADDED.do": "Keep the value on the device, or read it once every N steps.",
    "explain.DIFF.COMM.EXPOSED": (
        "Communication that computing does not hide takes more or less time. At Level0 waiting and transfer cannot be told apart."
    ),
    "explain.DIFF.COMM.EXPOSED.do": "Record both sides at Level1 to see whether a peer is late or the transfer is slow.",
    "explain.DIFF.COMM.LATE_RANK": (
        "A collective, by type, communicator and place in the step, waits longer or shorter for a peer, or for another one. The "
        "wait ends where its longest Notify_Wait ends."
    ),
    "explain.DIFF.COMM.LATE_RANK.do": "Look at the rank it waits for: npu-tui ranks shows who is late and why.",
    "explain.DIFF.COMM.BANDWIDTH": "The transfer of a collective, after its longest wait, takes more or less time than before.",
    "explain.DIFF.COMM.BANDWIDTH.do": "Compare sizes and links on both sides; another job may share the links.",
    "explain.DIFF.COMPILE": (
        "aclopCompileAndExecute takes more or less time on the host: operators are compiled while the step runs, for new shapes "
        "or without a cache. The price is what of it the device is idle."
    ),
    "explain.DIFF.COMPILE.do": "Use torch_npu.npu.set_compile_mode(jit_compile=False), or keep the shapes the same.",
    "explain.DIFF.LOADER": (
        "The device is idle for longer or shorter while the host fetches a batch: the part of the slices named after the "
        "dataloader in which it neither computes nor communicates."
    ),
    "explain.DIFF.LOADER.do": "Compare num_workers, prefetch_factor and the storage of both runs.",
    "explain.DIFF.COPY": (
        "Copies take more or less time in which the device neither computes nor communicates: there are more of them, they are "
        "larger, or their memory is not pinned."
    ),
    "explain.DIFF.COPY.do": "Copy from pinned memory with non_blocking=True, while the step before still runs.",
    "explain.DIFF.MEMORY": "The highest memory of the framework's allocator differs by 2% and 16 MiB or more.",
    "explain.DIFF.MEMORY.do": "Look at the memory lanes of both sides at the marked times.",
    "explain.DIFF.FREQ": "The recorded clock of the AI cores differs by 2% or more: computing cannot be compared without it.",
    "explain.DIFF.FREQ.do": "Check power and temperature of both devices, and measure again at the same clock.",
    "explain.DIFF.CONFIG": "Settings of the profiler, versions or environment variables differ. What a side does not record is no difference.",
    "explain.DIFF.CONFIG.do": "Change one thing at a time, or make sure that the difference is the one you want to measure.",
    "explain.DIFF.INCOMPARABLE": (
        "Nothing ran on the device of one side, or less than a fifth of the work has a counterpart: no difference means anything."
    ),
    "explain.DIFF.INCOMPARABLE.do": "Record the same program on both sides; --map A=B tells names that were changed.",
}
