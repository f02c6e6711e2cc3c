"""The parts of the report that need the files beside a trace: kernels by shapes, memory, cross-check."""

from __future__ import annotations

from npu_tui.analysis.work.collectives.link_matrix import PairSum
from npu_tui.analysis.work.joined.cross_check import Check
from npu_tui.analysis.work.joined.kernel_groups import kernel_groups
from npu_tui.analysis.work.joined.kernels import KernelTable
from npu_tui.analysis.work.joined.memory import Memory
from npu_tui.profile.files import FileState
from npu_tui.report.schema_files import CrossCheckRow, FileRow, KernelGroupRow, MemoryPart, MemoryPeakRow, PairRow
from npu_tui.report.values import text, us
from npu_tui.strings import say, words


def kernel_group_part(table: KernelTable) -> list[KernelGroupRow]:
    """The kernels by type, shapes and data types, most time first."""
    return [
        KernelGroupRow(
            type=text(each.type),
            shapes=text(each.shapes),
            dtypes=text(each.dtypes),
            core=text(each.core),
            count=each.count,
            total_us=us(each.total),
            p50_us=us(each.p50),
            p90_us=us(each.p90),
            max_us=us(each.longest),
            wait_us=us(each.wait),
            bandwidth_gb_s=_rounded(each.speed),
            mte2_ratio=_rounded(each.ratios.get("mte2")),
            mac_ratio=_rounded(each.ratios.get("mac")),
            vec_ratio=_rounded(each.ratios.get("vec")),
            outliers=each.outliers,
        )
        for each in kernel_groups(table, "shapes")
    ]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


def memory_part(memory: Memory) -> MemoryPart | None:
    """Peaks, the gap between reserved and allocated, and what was never released; None without files."""
    if not memory.is_known:
        return None
    gap, kept = memory.fragmented(), memory.allocations.kept
    return MemoryPart(
        peaks=[
            MemoryPeakRow(
                component=text(each.component), amount=each.amount, peak_bytes=each.peak[1], at_us=us(each.peak[0])
            )
            for each in (*memory.curves, *memory.modules)
            if each.peak[1]
        ],
        gap_bytes=None if gap is None else gap[1],
        gap_at_us=None if gap is None else us(gap[0]),
        allocations=len(memory.allocations),
        never_released=len(kept),
        never_released_bytes=int(memory.allocations.size[kept].sum()),
    )


def file_part(files: list[FileState]) -> list[FileRow]:
    """A row per file that may be there."""
    return [
        FileRow(
            name=each.name,
            state=each.state,
            rows=each.rows,
            problems=[text(words(problem)) for problem in each.problems],
            tells=say(f"summary.tells.{each.name}"),
            setting=say(f"summary.makes.{each.name}"),
        )
        for each in files
    ]


def matrix_part(pairs: list[PairSum]) -> list[PairRow]:
    """A row per pair of ranks and transport."""
    return [
        PairRow(
            group=text(each.group),
            source=each.source,
            target=each.target,
            transport=text(each.transport),
            size_bytes=round(each.size),
            transit_us=us(each.time),
            bandwidth_gb_s=_rounded(each.speed),
        )
        for each in pairs
    ]


def cross_check_part(checks: list[Check]) -> list[CrossCheckRow]:
    """A row per file."""
    return [
        CrossCheckRow(
            file=each.file,
            rows=each.rows,
            matched=each.matched,
            figures=each.compared,
            differing=each.differing,
            ours_only=each.ours_only,
        )
        for each in checks
    ]
