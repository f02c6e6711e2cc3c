"""What a report is made of, measured once: devices, collectives, steps and files beside the trace."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from npu_tui.analysis.findings.facts import Beside, Facts
from npu_tui.analysis.findings.find import find
from npu_tui.analysis.findings.model import Findings
from npu_tui.analysis.overlap.steps import Step, steps
from npu_tui.analysis.parts import DevicePart, device_parts
from npu_tui.analysis.thresholds import Thresholds
from npu_tui.analysis.work.communication import Collective, PlaneArgs, collectives, plane_args
from npu_tui.analysis.work.host_operators import HostOperators, host_operators
from npu_tui.ingest.companions.files import Companions, companions_of
from npu_tui.report.selection import WHOLE_TRACE, Selection
from npu_tui.trace.model import Trace

_KERNEL_COLUMNS = (
    "Name", "Type", "OP State", "Accelerator Core", "Duration(us)", "Input Data Types", "aic_mte2_ratio",
    "aiv_mte2_ratio",
)  # fmt: skip
_MEMORY_COLUMNS = ("Component", "Total Allocated(MB)", "Total Reserved(MB)")


@dataclass
class Measured:
    """The parts of ``trace`` that reports and findings share, of one ``selection``."""

    trace: Trace
    selection: Selection = WHOLE_TRACE
    thresholds: Thresholds | None = None

    @cached_property
    def companions(self) -> Companions | None:
        """The files beside the trace."""
        return companions_of(self.trace)

    @cached_property
    def parts(self) -> list[DevicePart]:
        """Every device."""
        return device_parts(self.trace, self.thresholds)

    @cached_property
    def steps(self) -> list[Step]:
        """All steps of the trace."""
        return steps(self.trace)

    @cached_property
    def planes(self) -> PlaneArgs:
        """Args of all tasks of collectives. Raises ``InputError`` if the file is gone or has changed."""
        return plane_args(self.trace)

    @cached_property
    def collectives(self) -> list[Collective]:
        """The collectives that start in the selection."""
        return collectives(self.trace, self.planes, self.selection.window)

    @cached_property
    def hosts(self) -> HostOperators:
        """The operations of the framework."""
        return host_operators(self.trace)

    @cached_property
    def facts(self) -> list[Facts]:
        """What the rules read of every device, in the order of ``parts``."""
        return [
            Facts(
                self.trace,
                part,
                self.steps,
                self.selection.window,
                self.selection.step,
                self.planes,
                self.collectives,
                self.beside,
                self.thresholds,
                self.hosts,
            )
            for part in self.parts
        ]

    @cached_property
    def findings(self) -> Findings:
        """The findings of all devices that did anything."""
        return find([each for each in self.facts if each.has("overlap")])

    @cached_property
    def beside(self) -> Beside:
        """Settings, environment and tables beside the trace."""
        companions = self.companions
        if companions is None:
            return Beside()
        settings: dict[str, object] = {}
        config = companions.profiler_info.get("config")
        for group in ("common_config", "experimental_config"):
            values = config.get(group) if isinstance(config, dict) else None
            settings.update(values if isinstance(values, dict) else {})
        header = companions.columns("kernel_details.csv")
        columns = [column for column in _KERNEL_COLUMNS if column in header]
        kernels = (
            [dict(zip(columns, cells, strict=True)) for cells in companions.rows("kernel_details.csv", *columns)]
            if columns
            else []
        )
        memory = [
            dict(zip(_MEMORY_COLUMNS, cells, strict=True))
            for cells in companions.rows("memory_record.csv", *_MEMORY_COLUMNS)
        ]
        return Beside(settings, _environment(companions), kernels, memory, companions.ranks)


def _environment(companions: Companions) -> dict[str, str] | None:
    """The variables that profiler_metadata.json records; None without them."""
    document: Any = companions.metadata
    values = document.get("ENV_VARIABLES") if isinstance(document, dict) else None
    if not isinstance(values, dict):
        return None
    return {str(name): str(value) for name, value in values.items()}


def findings_of(trace: Trace, selection: Selection = WHOLE_TRACE, thresholds: Thresholds | None = None) -> Findings:
    """The findings of ``selection``. Raises ``InputError`` if the file of the trace is gone or has changed."""
    return Measured(trace, selection, thresholds).findings
