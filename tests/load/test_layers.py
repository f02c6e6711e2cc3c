"""Processes and threads as layers and lanes: order, kinds, names and devices."""

from __future__ import annotations

from npu_tui.load import layers
from npu_tui.load.json_events import Metadata
from npu_tui.load.layers import thread_label

OS_PID = 3016828


def plan_layers(
    metadata: Metadata, threads: set[tuple[int, int]], counters: set[int], links: set[int]
) -> list[layers.ProcessPlan]:
    """The plan where the slices of all threads have no category."""
    return layers.plan_layers(metadata, {thread: {""} for thread in threads}, counters, links)


def packed(order: int, device: int) -> int:
    """The pid that msprof gives a layer."""
    return OS_PID << 10 | order << 5 | device


def named(processes: dict[int, tuple[str, int]], labels: dict[int, str] | None = None) -> Metadata:
    """Metadata of processes by pid: name and sort index."""
    return Metadata(
        process_name={pid: name for pid, (name, _) in processes.items()},
        process_order={pid: order for pid, (_, order) in processes.items()},
        process_label=labels or {},
    )


def test_layers_follow_the_sort_index_and_know_their_device() -> None:
    pids = {
        OS_PID: ("Python", 0),
        packed(7, 1): ("CANN", 7),
        packed(13, 1): ("Ascend Hardware", 13),
        packed(15, 1): ("HCCL", 15),
        packed(17, 1): ("HBM", 17),
        packed(23, 1): ("Overlap Analysis", 23),
    }
    threads = {(pid, 0) for pid, (name, _) in pids.items() if name != "HBM"}
    plans = plan_layers(named(pids), threads, {packed(17, 1)}, set())
    assert [(plan.name, plan.kind, plan.device) for plan in plans] == [
        ("Python", "python", None),
        ("CANN", "cann", None),
        ("Ascend Hardware", "hardware", 1),
        ("HCCL", "communication", 1),
        ("HBM", "counter", 1),
        ("Overlap Analysis", "overlap", 1),
    ]


def test_newer_names_of_the_communication_layer() -> None:
    for name in ("HCCL", "Communication", "COMMUNICATION"):
        (plan,) = plan_layers(named({packed(16, 0): (name, 16)}), {(packed(16, 0), 1)}, set(), set())
        assert (plan.name, plan.kind) == (name, "communication")


def test_one_layer_per_device() -> None:
    """msprof may write several devices into one file, under one process name."""
    pids = {packed(14, device): ("Ascend Hardware", 14) for device in (3, 0)}
    plans = plan_layers(named(pids), {(pid, 2) for pid in pids}, set(), set())
    assert [(plan.name, plan.device) for plan in plans] == [("Ascend Hardware", 0), ("Ascend Hardware", 3)]


def test_a_label_with_a_number_is_the_device() -> None:
    pid = packed(14, 31)
    (plan,) = plan_layers(named({pid: ("Ascend Hardware", 14)}, {pid: "NPU 5"}), {(pid, 2)}, set(), set())
    assert plan.device == 5


def test_pids_that_are_not_packed_tell_no_device() -> None:
    (plan,) = plan_layers(named({800: ("Ascend Hardware", 8)}, {800: "NPU"}), {(800, 2)}, set(), set())
    assert plan.device is None


def test_a_nameless_process_with_nothing_but_link_ends_is_cann() -> None:
    """torch_npu leaves the name and the slices of CANN out at Level0."""
    pid = packed(7, 0)
    (plan,) = plan_layers(Metadata(process_order={pid: 7}), set(), set(), {pid})
    assert (plan.name, plan.kind, plan.threads) == ("CANN", "cann", [])


def test_processes_without_metadata_come_last_under_their_number() -> None:
    plans = plan_layers(named({5: ("Python", 0)}), {(5, 1), (77, 1), (9, 1)}, {12}, set())
    assert [(plan.name, plan.kind) for plan in plans] == [
        ("Python", "python"),
        ("Process 12", "counter"),
        ("Process 77", "other"),
        ("Process 9", "other"),
    ]


def test_threads_follow_their_sort_index() -> None:
    """The dequeue thread is drawn last though its number is not the highest."""
    metadata = named({5: ("Python", 0)})
    metadata.thread_order = {(5, 30): 41}
    metadata.thread_name = {(5, 40): "Thread 40", (5, 30): ""}
    (plan,) = plan_layers(metadata, {(5, 40), (5, 30), (5, 20)}, set(), set())
    assert plan.threads == [20, 40, 30]
    assert [thread_label(metadata, 5, tid) for tid in plan.threads] == ["Thread 20", "Thread 40", "Thread 30"]


def test_categories_tell_the_kinds_of_other_writers() -> None:
    """Kineto names its processes after the program and the device."""
    threads = {(1, 1): {"cpu_op"}, (2, 7): {"kernel", "gpu_memcpy"}, (3, 1): {"whatever"}}
    plans = layers.plan_layers(Metadata(), threads, set(), set())
    assert [(plan.pid, plan.kind) for plan in plans] == [(1, "python"), (2, "hardware"), (3, "other")]
