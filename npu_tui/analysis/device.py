"""Which slices of a device are compute, collectives, copies: what keeps it busy."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from npu_tui.trace.model import HOST_TO_DEVICE, MOST_DEVICES, Layer, Trace

Bools = npt.NDArray[np.bool_]

COMPUTE_TASK_TYPES = frozenset({"AI_CORE", "AI_VECTOR_CORE", "MIX_AIC", "MIX_AIV", "AI_CPU", "DSA_SQE"})
"""Task types of msprof's ``Ascend Hardware`` slices that compute."""

_CORE_TASK_TYPES = frozenset({"AI_CORE", "AI_VECTOR_CORE", "MIX_AIC", "MIX_AIV"})
_COPY_TASK_TYPES = frozenset({"PCIE_DMA_SQE", "SDMA_SQE"})
_ON_AI_CPU = re.compile(r"AiCpu(?![a-z])")
"""What CANN puts into the names of kernels of the AI CPU; older writers tell no type of such a task."""
_NOT_KERNELS = ("MEMCPY", "EVENT", "NOTIFY")


@dataclass(frozen=True, slots=True)
class DeviceSlices:
    """Masks over all slices of a trace for one device; (n,) each."""

    device: int | None
    compute: Bools
    collective: Bools
    copy: Bools

    @property
    def busy(self) -> Bools:
        """Compute, group collectives and copies; waits, records and plane tasks are not busy."""
        mask: Bools = self.compute | self.collective | self.copy
        return mask


def on_ai_cpu(trace: Trace) -> Bools:
    """Which slices are kernels of the AI CPU, if they are kernels at all, by task type or name; (n,)."""
    of_type = np.array([kind == "AI_CPU" for kind in trace.task_types] + [False])
    named = np.array([_ON_AI_CPU.search(name) is not None for name in trace.names] + [False])
    found: Bools = of_type[trace.slices.task_type] | named[trace.slices.name]
    return found


def is_group_lane(name: str) -> bool:
    """Whether a lane of the communication layer holds whole collectives, not the tasks of one plane."""
    return not name.startswith("Plane ")


def device_slices(trace: Trace) -> list[DeviceSlices]:
    """One entry per device of the trace, by device number; the unknown device (older writers) comes first.

    Of more than ``MOST_DEVICES`` the first ones.
    """
    layers: defaultdict[int | None, list[Layer]] = defaultdict(list)
    for layer in trace.layers:
        if layer.kind in ("hardware", "communication") and layer.lanes:
            layers[layer.device].append(layer)
    devices = sorted(layers, key=lambda device: -1 if device is None else device)
    return [_slices_of(trace, device, layers[device]) for device in devices[:MOST_DEVICES]]


def _slices_of(trace: Trace, device: int | None, layers: list[Layer]) -> DeviceSlices:
    slices = trace.slices
    hardware = _on_lanes(trace, [lane for layer in layers if layer.kind == "hardware" for lane in layer.lanes])
    groups = [
        lane
        for layer in layers
        if layer.kind == "communication"
        for lane in layer.lanes
        if is_group_lane(trace.lanes[lane].name)
    ]
    copy = _named(trace, lambda name: name.startswith("MEMCPY")) | _typed(trace, _COPY_TASK_TYPES)
    compute = _typed(trace, COMPUTE_TASK_TYPES)
    if not (_typed(trace, _CORE_TASK_TYPES) & hardware).any():
        targets = trace.links.target_slice[trace.links_of(HOST_TO_DEVICE)]
        launched = np.zeros(len(slices), np.bool_)
        launched[targets[targets >= 0]] = True
        compute = compute | (launched & ~_named(trace, lambda name: name.startswith(_NOT_KERNELS)))
    # Older chips run copies on the AI CPU, whose task type counts as compute.
    return DeviceSlices(device, compute & hardware & ~copy, _on_lanes(trace, groups), copy & hardware)


def _on_lanes(trace: Trace, lanes: list[int]) -> Bools:
    mask = np.zeros(len(trace.slices), np.bool_)
    for lane in lanes:
        mask[trace.lanes[lane].first : trace.lanes[lane].last] = True
    return mask


def _typed(trace: Trace, task_types: frozenset[str]) -> Bools:
    wanted = np.array([name in task_types for name in trace.task_types] + [False])
    found: Bools = wanted[trace.slices.task_type]
    return found


def _named(trace: Trace, rule: Callable[[str], bool]) -> Bools:
    wanted = np.array([rule(name) for name in trace.names] + [False])
    found: Bools = wanted[trace.slices.name]
    return found
