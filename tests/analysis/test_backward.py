"""The device time of the backward pass of an operation, with links as torch.profiler writes them."""

from __future__ import annotations

from npu_tui.load.load import load
from npu_tui.profile.profile import Profile

LAUNCH = {"cat": "async_npu", "name": "async_npu"}
BEGIN, END = {"ph": "s", "cat": "fwdbwd", "name": "fwdbwd"}, {"ph": "f", "bp": "e", "cat": "fwdbwd", "name": "fwdbwd"}


def operation(name: str, tid: int, start: float, duration: float) -> dict[str, object]:
    return {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": tid, "ts": start, "dur": duration}


def test_the_backward_pass_counts_for_the_operation_and_those_around_it(tmp_path):
    """conv2d calls convolution; its backward launches kernels of 30 and 12 us, the forward one of 20 us."""
    import orjson

    events = [
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "Python"}},
        {"ph": "M", "name": "process_name", "pid": 2, "args": {"name": "Ascend Hardware"}},
        operation("aten::conv2d", 1, 0, 100),
        operation("aten::convolution", 1, 10, 50),
        operation("ConvolutionBackward0", 2, 200, 80),
    ]
    for number, (host, kernel, length) in enumerate(((15, 40, 20), (210, 230, 30), (215, 270, 12))):
        tid = 1 if host < 100 else 2
        events += [
            LAUNCH | {"ph": "s", "id": number, "pid": 1, "tid": tid, "ts": host},
            {
                "ph": "f",
                "bp": "e",
                "cat": "async_npu",
                "name": "async_npu",
                "id": number,
                "pid": 2,
                "tid": 0,
                "ts": kernel,
            },
            {"ph": "X", "name": f"kernel{number}", "pid": 2, "tid": 0, "ts": kernel, "dur": length},
        ]
    events += [BEGIN | {"id": 9, "pid": 1, "tid": 1, "ts": 10}, END | {"id": 9, "pid": 1, "tid": 2, "ts": 200}]
    (tmp_path / "trace_view.json").write_bytes(orjson.dumps(events))
    profile = Profile(load(tmp_path / "trace_view.json"))
    operators, trace = profile.host_operators, profile.trace
    told = {
        trace.name_of(int(item)): (int(forward), int(backward))
        for item, forward, backward in zip(operators.item, operators.device_total, operators.backward, strict=True)
    }
    assert told == {
        "aten::conv2d": (20_000, 42_000),
        "aten::convolution": (20_000, 42_000),
        "ConvolutionBackward0": (42_000, 0),
    }
