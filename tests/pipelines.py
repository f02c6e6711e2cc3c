"""Simulated pipelines: every stage in a max-plus schedule, one of them as a trace; predicted against simulated gain.

    python tests/pipelines.py [--seeds 20] [NAME…]

Stages send activations on and gradients back; a stage receives where the pass needs it, and its sends run beside its
next work. Of every situation the table has the gain of the findings about waiting and that of a second simulation in
which the slow stage is as fast as the others.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
for folder in (ROOT, ROOT / "fixtures", ROOT / "tests", ROOT / "tests" / "rules"):
    sys.path.insert(0, str(folder))

from kept import kept  # noqa: E402 - its folder is no package
from measured import profile_at  # noqa: E402

from npu_tui.profile.profile import Profile  # noqa: E402

SEND_NS = 60_000
_KERNELS = 3
_START = 1_751_234_567_000_000
_HOST = 7001
_CANN, _DEVICE, _HCCL = ((_HOST << 10) + (layer << 5) for layer in (1, 2, 3))
_COMPUTE = 2
_STREAMS = {"receive F": 9, "receive B": 10, "send B": 11, "send F": 12, "reduce": 13}


@dataclass(frozen=True)
class Pipeline:
    """``stages`` of which ``rank`` is seen; a pass takes ``forward`` and ``backward`` ns, ``slow`` stages more.

    ``slow`` is (stage, ns more for each forward pass, ns more for each backward one). With ``gathered`` all forward
    passes come first (GPipe), else one forward and one backward take turns (1F1B). ``noise`` is the spread of a pass.
    """

    stages: int = 4
    micro: int = 6
    rank: int = 1
    forward: int = 1_200_000
    backward: int = 2_300_000
    slow: tuple[tuple[int, int, int], ...] = ()
    gathered: bool = False
    noise: float = 0.05
    steps: int = 3
    seed: int = 1
    late: int = 0
    """ns by which the first stage begins every step later."""
    paired: bool = False
    """Both ranks of a message name its group alike, as in the traces of all stages."""

    def group_of(self, act: str, kind: str, other: int) -> int:
        """What the group of a message with stage ``other`` is called, 0: by its stream."""
        source, target = (other, self.rank) if act == "receive" else (self.rank, other)
        return 1_000 + (source * 64 + target) * 2 + (kind == "B") if self.paired else 0

    def passes(self, stage: int) -> list[tuple[str, int]]:
        """The passes of a stage in their order: ("F" or "B", micro batch)."""
        forward = [("F", number) for number in range(self.micro)]
        backward = [("B", number) for number in range(self.micro)]
        ahead = self.micro if self.gathered else min(self.stages - stage, self.micro)
        turns = [each for pair in zip(backward, forward[ahead:], strict=False) for each in pair]
        return forward[:ahead] + turns + backward[self.micro - ahead :]

    def time(self, stage: int, kind: str, step: int, number: int) -> int:
        """What a pass takes, ns; the same with and without a slow stage."""
        draw = random.Random(f"{self.seed} {stage} {kind} {step} {number}").uniform(-1, 1)
        more = sum(ahead if kind == "F" else back for slow, ahead, back in self.slow if slow == stage)
        return round((self.forward if kind == "F" else self.backward) * (1 + self.noise * draw)) + more


@dataclass
class Ran:
    """When each stage did what, ns: (stage, kind, number) to (posted, received, done), and when all had finished."""

    passes: dict[tuple[int, str, int], tuple[int, int, int]] = field(default_factory=dict)
    finished: list[int] = field(default_factory=list)


def run(pipeline: Pipeline, begun: int, step: int) -> Ran:
    """One step of all stages, which begin together."""
    ran, ready = Ran(), [begun + (pipeline.late if stage == 0 else 0) for stage in range(pipeline.stages)]
    queues = [pipeline.passes(stage) for stage in range(pipeline.stages)]
    at = [0] * pipeline.stages
    while any(at[stage] < len(queues[stage]) for stage in range(pipeline.stages)):
        for stage in range(pipeline.stages):
            while at[stage] < len(queues[stage]):
                kind, number = queues[stage][at[stage]]
                source = stage - 1 if kind == "F" else stage + 1
                posted = received = ready[stage]
                if 0 <= source < pipeline.stages:
                    sent = ran.passes.get((source, kind, number))
                    if sent is None:
                        break
                    received = max(posted, sent[2]) + SEND_NS
                done = received + pipeline.time(stage, kind, step, number)
                ran.passes[stage, kind, number] = posted, received, done
                ready[stage] = done
                at[stage] += 1
    ran.finished = ready
    return ran


class _Writer:
    """Events of one rank; the host launches far ahead, and waits at the end of every step."""

    def __init__(self, rank: int) -> None:
        self.events: list[dict[str, Any]] = []
        self.host, self.link, self.rank = 0, 1000, rank
        for pid, name, labels, order in (
            (_HOST, "Python", "CPU", 1), (_CANN, "CANN", "CPU", 2), (_DEVICE, "Ascend Hardware", "NPU", 3),
            (_HCCL, "Communication", "NPU", 4),
        ):  # fmt: skip
            for kind, args in (
                ("process_name", {"name": name}),
                ("process_labels", {"labels": labels}),
                ("process_sort_index", {"sort_index": order}),
            ):
                self.events.append({"ph": "M", "pid": pid, "tid": 0, "name": kind, "args": args})

    def slice(self, pid: int, tid: int, name: str, start: int, end: int, **args: object) -> None:
        ts, length = f"{_START + start // 1000}.{start % 1000:03d}", (end - start) / 1000
        self.events.append(
            {"ph": "X", "pid": pid, "tid": tid, "name": name, "ts": ts, "dur": length, "args": args}
            | ({"cat": "cpu_op"} if pid == _HOST and name.startswith(("aten", "c10d")) else {})
        )

    def launch(self, name: str, pid: int, tid: int, start: int, thread: int = _HOST) -> int:
        """A launch of what starts at ``start`` by a ``thread`` of the host; returns its connection id."""
        self.link += 1
        self.host += 6_000
        self.slice(_HOST, thread, name, self.host, self.host + 5_000)
        self.slice(_CANN, _HOST, "Node@launch", self.host + 1_000, self.host + 3_000, connection_id=self.link)
        source = f"{_START + (self.host + 2_000) // 1000}.{(self.host + 2_000) % 1000:03d}"
        target = f"{_START + start // 1000}.{start % 1000:03d}"
        key = str(self.link << 32)
        ends = {"cat": "HostToDevice", "name": f"HostToDevice{key}", "id": key}
        self.events.append({"ph": "s", "pid": _CANN, "tid": _HOST, "ts": source, **ends})
        self.events.append({"ph": "f", "bp": "e", "pid": pid, "tid": tid, "ts": target, **ends})
        return self.link

    def task(self, stream: int, name: str, start: int, end: int, launched: str = "aten::mm") -> None:
        link = self.launch(launched, _DEVICE, stream, start)
        self.slice(_DEVICE, stream, name, start, end, **{"Task Type": _task_type(name), "connection_id": link})

    def flow(self, kind: str, key: int, source: tuple[int, int, int], target: tuple[int, int, int]) -> None:
        """A link of a ``kind`` between two (process, thread, ns)."""
        for phase, (pid, tid, at) in (("s", source), ("f", target)):
            ts = f"{_START + at // 1000}.{at % 1000:03d}"
            ends = {"cat": kind, "name": kind, "id": str(key), "ts": ts}
            self.events.append({"ph": phase, "pid": pid, "tid": tid, **ends} | ({"bp": "e"} if phase == "f" else {}))

    def collective(
        self, kind: str, number: int, group: int, start: int, arrivals: dict[int, int], end: int, named: int = 0
    ) -> None:
        """A collective on the lane of ``group``, ``named`` in its name, with a plane for each peer and its wait."""
        lane = 16 * group
        link = self.launch(f"c10d::{kind}", _HCCL, lane, start)
        stream = list(_STREAMS.values())[group]
        name = f"hcom_{kind}__{named or 501 + group}_{number}_1"
        self.slice(
            _HCCL, lane, name, start, end, connection_id=link, alg_type="MESH-RING", count=1024, data_type="FP32"
        )
        for plane, (peer, after) in enumerate(sorted(arrivals.items()), 1):
            args = {"src rank": self.rank, "dst rank": peer, "notify_id": str(700 + plane)}
            came = max(start + after, start + 1_000)
            self.slice(_HCCL, lane + plane + 1, "Notify_Wait", start + 500, came, **args, **{"size(Byte)": 0})
            moved = {"size(Byte)": 8_388_608, "link type": "HCCS", "transport type": "SDMA"}
            self.slice(_HCCL, lane + plane + 1, "Memcpy", came, end, **args, **moved)
        self.slice(
            _DEVICE, stream, "Notify Wait", start + 500, end, **{"Task Type": "Notify Wait", "connection_id": link}
        )

    def after(self, waiting: int, recording: int, fired: int, free: int) -> None:
        """Stream ``waiting``, ``free`` since then, waits for what ``recording`` has done when it ``fired``."""
        self.task(recording, "EVENT_RECORD", fired, fired + 20, "record_event")
        since = max(free, self.host + 16_000)
        self.task(waiting, "EVENT_WAIT", since, max(since, fired) + 20, "wait_event")


def _task_type(name: str) -> str:
    return {"EVENT_RECORD": "EVENT_RECORD_SQE", "EVENT_WAIT": "EVENT_WAIT_SQE"}.get(name, "AI_CORE")


def write(pipeline: Pipeline, path: Path) -> int:
    """Write the trace of the rank that is seen to ``path``; returns how long all steps took, ns."""
    text, length = _simulated(pipeline)
    path.write_text(text)
    return length


@kept
def _simulated(pipeline: Pipeline) -> tuple[str, int]:
    """The trace of the rank that is seen, and how long all steps took, ns."""
    writer, begun, rank = _Writer(pipeline.rank), 1_000_000, pipeline.rank
    counts: dict[str, int] = dict.fromkeys(_STREAMS, 0)
    free = dict.fromkeys(_STREAMS, 0)
    first = begun
    for step in range(pipeline.steps):
        writer.host = max(writer.host, begun - 400_000)
        since = writer.host
        ran = run(pipeline, begun, step)
        for kind, number in pipeline.passes(rank):
            posted, received, done = ran.passes[rank, kind, number]
            peer = rank - 1 if kind == "F" else rank + 1
            stream = f"receive {kind}"
            work = posted
            if 0 <= peer < pipeline.stages:
                writer.after(_STREAMS[stream], _COMPUTE, posted, free[stream])
                begin = posted + 40
                arrival = {peer: received - SEND_NS - begin}
                lane, named = list(_STREAMS).index(stream), pipeline.group_of("receive", kind, peer)
                writer.collective("receive", counts[stream], lane, begin, arrival, received, named)
                free[stream] = received + 20
                counts[stream] += 1
                writer.after(_COMPUTE, _STREAMS[stream], received, posted + 40)
                work = received + 40
            for part in range(_KERNELS):
                low, high = (work + (done - work) * k // _KERNELS for k in (part, part + 1))
                writer.task(_COMPUTE, f"{'MatMul' if kind == 'F' else 'MatMulGrad'}{part}", low + 500, high)
            other = rank + 1 if kind == "F" else rank - 1
            stream = f"send {kind}"
            if 0 <= other < pipeline.stages:
                writer.after(_STREAMS[stream], _COMPUTE, done, free[stream])
                begin = max(done, free[stream]) + 40
                lane, named = list(_STREAMS).index(stream), pipeline.group_of("send", kind, other)
                writer.collective("send", counts[stream], lane, begin, {other: 0}, begin + SEND_NS, named)
                free[stream] = begin + SEND_NS + 20
                counts[stream] += 1
        done = ran.finished[rank]
        writer.after(_STREAMS["reduce"], _COMPUTE, done, free["reduce"])
        begin = done + 40
        arrivals = {stage: end - begin for stage, end in enumerate(ran.finished) if stage != rank}
        end = max(max(ran.finished), begin) + 40_000
        writer.collective("allReduce", step, list(_STREAMS).index("reduce"), begin, arrivals, end)
        free["reduce"] = end + 20
        writer.after(_COMPUTE, _STREAMS["reduce"], end, done + 40)
        writer.task(_COMPUTE, "ApplyAdam", end + 500, end + 300_000)
        end += 310_000
        writer.slice(
            _CANN, _HOST, "AscendCL@aclrtSynchronizeStream", writer.host + 6_000, end, connection_id=writer.link + 1
        )
        writer.link += 1
        writer.slice(_HOST, _HOST, f"ProfilerStep#{step + 5}", since, end + 2_000)
        writer.host = end + 3_000
        begun = end + 420_000
    events = writer.events
    lanes = [(group * 16, f"Group {group} Communication") for group in range(len(_STREAMS))]
    lanes += [
        (group * 16 + 1 + plane, f"Plane {plane}") for group in range(len(_STREAMS)) for plane in range(pipeline.stages)
    ]
    for tid, name in lanes:
        events.append({"ph": "M", "pid": _HCCL, "tid": tid, "name": "thread_name", "args": {"name": name}})
    for stream in (_COMPUTE, *_STREAMS.values()):
        events.append(
            {"ph": "M", "pid": _DEVICE, "tid": stream, "name": "thread_name", "args": {"name": f"Stream {stream}"}}
        )
    return json.dumps(events), end - first


def measured(pipeline: Pipeline) -> tuple[Profile, int]:
    """The profile of a pipeline, and how long its steps took, ns."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "trace_view.json"
        length = write(pipeline, path)
        found = profile_at(path)
        _ = found.facts, found.findings
    return found, length


_CASE = Pipeline(slow=((3, 700_000, 0),), micro=6)

SITUATIONS: dict[str, Pipeline] = {
    "slow last, seen from the second of four": _CASE,
    "slow last, far slower": replace(_CASE, slow=((3, 2_000_000, 0),)),
    "slow third of four": replace(_CASE, slow=((2, 900_000, 900_000),)),
    "slow first, seen from the second": replace(_CASE, slow=((0, 900_000, 1_200_000),)),
    "slow first, seen from the last": replace(_CASE, rank=3, slow=((0, 900_000, 1_200_000),)),
    "slow second, seen from the last": replace(_CASE, rank=3, slow=((1, 900_000, 1_200_000),), micro=8),
    "slow last, seen from the first": replace(_CASE, rank=0, slow=((3, 1_200_000, 0),), micro=8),
    "eight stages, sixteen passes": replace(_CASE, stages=8, rank=2, micro=16, slow=((5, 600_000, 900_000),)),
    "two stages": replace(_CASE, stages=2, rank=0, micro=8, slow=((1, 1_000_000, 1_000_000),)),
    "gathered, slow last": replace(_CASE, gathered=True, slow=((3, 900_000, 900_000),)),
    "gathered, slow first": replace(_CASE, gathered=True, rank=2, slow=((0, 900_000, 900_000),)),
    "many passes": replace(_CASE, micro=16, slow=((3, 700_000, 500_000),)),
    "six stages, slow second seen from the fifth": replace(
        _CASE, stages=6, rank=4, micro=9, slow=((1, 500_000, 900_000),)
    ),
    "slow backward only, seen from the last": replace(_CASE, rank=3, micro=12, slow=((0, 0, 1_500_000),)),
    "gathered, eight stages, slow last": replace(
        _CASE, gathered=True, stages=8, rank=1, micro=12, slow=((7, 700_000, 700_000),)
    ),
    "two passes, slow last": replace(_CASE, micro=2, slow=((3, 3_000_000, 0),)),
    "even": replace(_CASE, slow=()),
    "even, two passes": replace(_CASE, slow=(), micro=2),
    "even, one pass, seen from the first": replace(_CASE, slow=(), micro=1, rank=0),
    "even, seen from the last": replace(_CASE, slow=(), rank=3),
    "even, seen from the first": replace(_CASE, slow=(), rank=0, micro=8),
    "even, gathered": replace(_CASE, slow=(), gathered=True),
    "even, uneven passes": replace(_CASE, slow=(), noise=0.2, micro=12),
    "even, gathered, seen from the last": replace(_CASE, slow=(), gathered=True, rank=3, noise=0.1),
    "even, eight stages": replace(_CASE, stages=8, rank=3, micro=16, slow=()),
}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Predicted against simulated gain of pipelines.")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seeds", type=int, default=20)
    options = parser.parse_args()
    print(f"{'pipeline':42}{'step ms':>11}{'predicted':>11}{'simulated':>11}{'right':>8}  leads")
    for name, pipeline in SITUATIONS.items():
        if options.names and not any(each in name for each in options.names):
            continue
        right, sums, leads = 0, [0.0, 0.0, 0.0], set()
        for seed in range(1, options.seeds + 1):
            seeded = replace(pipeline, seed=seed)
            found, length = measured(seeded)
            other = write(replace(seeded, slow=()), Path("/dev/null"))
            predicted = gain_of(found)
            simulated = (length - other) / pipeline.steps
            step = length / pipeline.steps
            right += abs(predicted - simulated) <= max(0.1 * simulated, 0.03 * step)
            sums = [
                total + value / options.seeds / 1e6
                for total, value in zip(sums, (step, predicted, simulated), strict=True)
            ]
            lead = found.findings.findings[0]
            leads.add(f"{lead.id}:{lead.severity}")
        numbers = "".join(f"{total:11.3f}" for total in sums)
        print(f"{name:42}{numbers}{right:5}/{options.seeds}  {' '.join(sorted(leads))}", flush=True)


def gain_of(found: Profile) -> int:
    """What the finding about late ranks would gain, ns per step."""
    return next((each.gain_ns or 0 for each in found.findings.findings if each.id == "COMM.STRAGGLER"), 0)


if __name__ == "__main__":
    main()
