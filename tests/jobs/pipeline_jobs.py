"""Simulated pipelines, all ranks of them, as traces: what is named first, and its price against a remedied run.

    python tests/jobs/pipeline_jobs.py [--seeds 20] [NAME…]

Every stage runs its passes in the order of a schedule, and waits for what the stages beside it send. The schedules are
written here a second time, so that those of the product are held against them.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pipelines import _COMPUTE, _DEVICE, _HCCL, _HOST, _STREAMS, _Writer

from npu_tui.jobs.findings import job_findings
from npu_tui.jobs.job import Job
from npu_tui.jobs.opening import open_job
from npu_tui.jobs.passes import micro_batches
from npu_tui.rules.model import Finding

SEND = 60_000
_KERNELS = 3
_PAUSE = 420_000


@dataclass(frozen=True)
class Spec:
    """``replicas`` pipelines of ``stages`` stages; passes of ``micro`` micro batches take ``forward``, ``backward`` ns.

    ``slow`` is (stage, share more), ``slow_rank`` (stage, replica, share more), ``late`` (stage, ns more that a message
    to the next stage takes, ns more that one back takes); ``posted``: it is sent later. ``lost`` ranks have no files.
    With ``together`` (1F1B) ranks wait in a batchSendRecv, which sends and receives. Without ``linked`` kernels have no
    operations, and their types tell the passes; without ``told`` no file names the parallel groups. With
    ``again`` forward passes keep no gradients, and backward ones compute them again.
    """

    stages: int = 4
    micro: int = 8
    replicas: int = 1
    chunks: int = 1
    schedule: str = "1f1b"
    forward: int = 1_200_000
    backward: int = 2_300_000
    slow: tuple[int, float] | None = None
    slow_rank: tuple[int, int, float] | None = None
    late: tuple[int, int, int] | None = None
    posted: bool = False
    together: bool = False
    told: bool = True
    lost: tuple[int, ...] = ()
    noise: float = 0.05
    steps: int = 3
    seed: int = 1
    linked: bool = True
    again: bool = False

    def passes(self, stage: int) -> list[tuple[str, int, int]]:
        """The passes of a stage in their order: F or B, chunk, micro batch."""
        count, stages = self.micro * self.chunks, self.stages
        if self.chunks == 1:
            forward = [("F", 0, number) for number in range(count)]
        else:
            rounds = range(0, self.micro, stages)
            forward = [("F", c, r + n) for r in rounds for c in range(self.chunks) for n in range(stages)]
        backward = [("B", self.chunks - 1 - chunk, number) for _, chunk, number in forward]
        ahead = {"1f1b": stages - stage, "gpipe": count}.get(self.schedule)
        if ahead is None:
            ahead = count if self.micro == stages else (stages - stage - 1) * 2 + (self.chunks - 1) * stages + 1
        ahead = min(ahead, count)
        order = forward[:ahead]
        for number, back in enumerate(backward):
            order.append(back)
            order += forward[ahead + number : ahead + number + 1]
        return order

    def events(self, stage: int) -> list[tuple[str, int, int]]:
        """The passes of a stage, with the calls between them where ranks wait in each."""
        return [(kind, 0, number) for kind, number in self.turns(stage)] if self.together else self.passes(stage)

    def time(self, stage: int, replica: int, kind: str, chunk: int, step: int, number: int) -> int:
        """What a pass takes, ns; noise is the same with and without trouble."""
        draw = random.Random(f"{self.seed} {stage} {replica} {kind} {chunk} {step} {number}").uniform(-1, 1)
        usual = self.forward if kind == "F" else self.backward
        more = self.slow[1] if self.slow and self.slow[0] == stage else 0.0
        more += self.slow_rank[2] if self.slow_rank and self.slow_rank[:2] == (stage, replica) else 0.0
        return round(usual * (1 + self.noise * draw) * (1 + more) / self.chunks)

    def moving(self, source: int, target: int) -> int:
        """How long a message takes once both are there, ns."""
        return SEND + (0 if self.posted else self._more(source, target))

    def lag(self, source: int, target: int) -> int:
        """How much later than its pass a message is sent, ns."""
        return self._more(source, target) if self.posted else 0

    def _more(self, source: int, target: int) -> int:
        if self.late and {source, target} == {self.late[0], self.late[0] + 1}:
            return self.late[1 if source < target else 2]
        return 0

    def turns(self, stage: int) -> list[tuple[str, int]]:
        """Passes (F or B, micro batch) and calls (> with the next stage, < with the one before, 0) where they wait."""
        first, last, micro = not stage, stage == self.stages - 1, self.micro
        ahead = min(self.stages - stage - 1, micro)
        rows: list[tuple[str, int]] = []

        def call(*sides: bool) -> None:
            rows.extend((side, 0) for side, wanted in zip("<>", sides, strict=True) if wanted)

        for number in range(ahead):
            call(not first, False)
            rows.append(("F", number))
            call(False, not last)
        call(not first and micro > ahead, False)
        for number in range(micro - ahead):
            rows.append(("F", ahead + number))
            call(False, not last)
            rows.append(("B", number))
            call(not first, False)
        for number in range(micro - ahead, micro):
            call(False, not last)
            rows.append(("B", number))
            call(not first, False)
        return rows


@dataclass
class Ran:
    """One step of one replica: (stage, kind, chunk, number) to (posted, received, done), and when each stage ended."""

    passes: dict[tuple[int, str, int, int], tuple[int, int, int]] = field(default_factory=dict)
    finished: list[int] = field(default_factory=list)
    calls: dict[int, list[tuple[int, int, int, int]]] = field(default_factory=dict)
    """Of each stage the calls in which ranks wait for each other: the other stage, start, other's start, end."""


def _source(spec: Spec, stage: int, kind: str, chunk: int) -> tuple[int, int] | None:
    """The stage and chunk that a pass needs something of; None for its own stage."""
    virtual = chunk * spec.stages + stage + (-1 if kind == "F" else 1)
    if not 0 <= virtual < spec.stages * spec.chunks:
        return None
    return virtual % spec.stages, virtual // spec.stages


def run_together(spec: Spec, replica: int, begun: int, step: int) -> Ran:
    """As ``run``, with stages that wait for each other in every message."""
    ran, ready = Ran(calls={stage: [] for stage in range(spec.stages)}), [begun] * spec.stages
    queues = [spec.turns(stage) for stage in range(spec.stages)]
    at, came = [0] * spec.stages, {}
    counts = dict.fromkeys(((stage, side) for stage in range(spec.stages) for side in "<>"), 0)
    while any(at[stage] < len(queues[stage]) for stage in range(spec.stages)):
        for stage in range(spec.stages):
            while at[stage] < len(queues[stage]):
                kind, number = queues[stage][at[stage]]
                if kind in "<>":
                    other = stage + (1 if kind == ">" else -1)
                    turn = counts[stage, kind]
                    low = min(stage, other)
                    come = came.setdefault((low, turn), {})
                    come.setdefault(stage, ready[stage] + spec.lag(stage, other))
                    if other not in come:
                        break
                    counts[stage, kind] += 1
                    ready_at = max(come.values()) + max(spec.moving(stage, other), spec.moving(other, stage))
                    ran.calls[stage].append((other, come[stage], come[other], ready_at))
                    ready[stage] = ready_at
                else:
                    done = ready[stage] + spec.time(stage, replica, kind, 0, step, number)
                    ran.passes[stage, kind, 0, number] = ready[stage], ready[stage], done
                    ready[stage] = done
                at[stage] += 1
    ran.finished = ready
    return ran


def run(spec: Spec, replica: int, begun: int, step: int) -> Ran:
    """One step of all stages of a replica, which begin together."""
    if spec.together:
        return run_together(spec, replica, begun, step)
    ran, ready = Ran(), [begun] * spec.stages
    queues = [spec.passes(stage) for stage in range(spec.stages)]
    at = [0] * spec.stages
    while any(at[stage] < len(queues[stage]) for stage in range(spec.stages)):
        moved = False
        for stage in range(spec.stages):
            while at[stage] < len(queues[stage]):
                kind, chunk, number = queues[stage][at[stage]]
                source = _source(spec, stage, kind, chunk)
                posted = received = ready[stage]
                if source is not None:
                    sent = ran.passes.get((source[0], kind, source[1], number))
                    if sent is None:
                        break
                    received = max(posted, sent[2] + spec.lag(source[0], stage)) + spec.moving(source[0], stage)
                done = received + spec.time(stage, replica, kind, chunk, step, number)
                ran.passes[stage, kind, chunk, number] = posted, received, done
                ready[stage], moved = done, True
                at[stage] += 1
        assert moved, "the stages wait for each other"
    ran.finished = ready
    return ran


def write(spec: Spec, folder: Path | None) -> float:
    """The traces of all ranks in ``folder``; returns how long a step takes, ns."""
    world = spec.stages * spec.replicas
    writers = [_Writer(rank) for rank in range(world)]
    begun, counts, keys = 1_000_000, [{} for _ in range(world)], 0
    first = begun
    for step in range(spec.steps):
        ran = [run(spec, replica, begun, step) for replica in range(spec.replicas)]
        ended = max(time for one in ran for time in one.finished)
        for rank in range(world) if folder else ():
            keys = _step(spec, writers[rank], rank, ran[rank % spec.replicas], (step, begun, ended), counts[rank], keys)
        begun = ended + 40_000 + 310_000 + _PAUSE
    if folder:
        for rank, writer in enumerate(writers):
            if rank not in spec.lost:
                _written(spec, writer, rank, folder / f"rank_{rank}_ascend_pt")
    return (begun - first) / spec.steps


def _step(spec, writer, rank, ran, times, counts, keys) -> int:
    """The events of one step of a rank, whose host is far ahead."""
    step, begun, ended = times
    stage, replica = divmod(rank, spec.replicas)
    writer.host = max(writer.host, begun - 4_000_000) if step else begun - 900_000
    since, operations = writer.host, {}
    calls = iter(ran.calls.get(stage, ()))
    for kind, chunk, number in spec.events(stage):
        if kind in "<>":
            other, start, came, end = next(calls)
            what = "batchSendRecv", "F" if other > stage else "B", other, stage, replica
            _message(spec, writer, what, start + 40, end, came, counts)
            continue
        posted, received, done = ran.passes[stage, kind, chunk, number]
        source, work = _source(spec, stage, kind, chunk), posted
        if source is not None and not spec.together:
            _message(
                spec,
                writer,
                ("receive", kind, source[0], stage, replica),
                posted + 40,
                received,
                received - spec.moving(source[0], stage),
                counts,
            )
            work = received + 40
        kernels = ["Grad"] * _KERNELS if kind != "F" else [""] * _KERNELS
        kernels = ["", "Grad"] * _KERNELS if kind == "B" and spec.again else kernels
        for part, grad in enumerate(kernels):
            low, high = (work + (done - work) * k // len(kernels) for k in (part, part + 1))
            thread = _HOST if kind == "F" else _HOST + 1
            name = "MatMul" if spec.linked and not spec.again else f"FlashAttentionScore{grad}"
            op = writer.host + 6_000
            link = writer.launch("MmBackward0" if grad else "aten::mm", _DEVICE, _COMPUTE, low + 500, thread)
            writer.slice(_DEVICE, _COMPUTE, name, low + 500, high, **{"Task Type": "AI_CORE", "connection_id": link})
            if spec.linked:
                keys += 2
                writer.flow("async_npu", keys, (_HOST, thread, op), (_DEVICE, _COMPUTE, low + 500))
                if not grad:  # without gradients nothing leads from the first forward pass to the backward one
                    operations[chunk, number, part // 2 if spec.again else part] = thread, op
                elif kind == "B":
                    source = operations[chunk, number, part // 2 if spec.again else part]
                    writer.flow("fwdbwd", keys + 1, (_HOST, *source), (_HOST, thread, op))
        virtual = chunk * spec.stages + stage + (1 if kind == "F" else -1)
        if 0 <= virtual < spec.stages * spec.chunks and not spec.together:
            other = virtual % spec.stages
            posted, received, _ = ran.passes[other, kind, virtual // spec.stages, number]
            _message(
                spec,
                writer,
                ("send", kind, other, stage, replica),
                done + 40 + spec.lag(stage, other),
                max(received, done + 41),
                posted,
                counts,
            )
    begin, end = ran.finished[stage] + 40, ended + 40_000
    arrivals = {other: ended - begin for other in range(spec.stages * spec.replicas) if other != rank}
    writer.collective("allReduce", step, list(_STREAMS).index("reduce"), begin, arrivals, end, 900)
    link = writer.launch("aten::adam", _DEVICE, _COMPUTE, end + 500)
    writer.slice(
        _DEVICE, _COMPUTE, "ApplyAdam", end + 500, end + 300_000, **{"Task Type": "AI_CORE", "connection_id": link}
    )
    end += 310_000
    writer.link += 1
    writer.slice(_HOST, _HOST, f"ProfilerStep#{step + 5}", since, max(end, writer.host) + 2_000)
    writer.host = max(end, writer.host) + 3_000
    return keys


def _message(spec, writer, what, begin, end, came, counts) -> None:
    """A message of a pass with the stage ``other``; both ranks name its group alike, and number it."""
    act, kind, other, stage, replica = what
    source, target = (other, stage) if act == "receive" else (stage, other)
    source, target = sorted((source, target)) if spec.together else (source, target)
    named = 1_000 + ((source * 64 + target) * 64 + replica) * 2 + (kind == "B" and not spec.together)
    lane = list(_STREAMS).index(f"{'send' if spec.together else act} {kind}")
    number = counts[named, act] = counts.get((named, act), -1) + 1
    peer = other * spec.replicas + replica
    writer.collective(act, number, lane, begin, {peer: max(came - begin, 0)}, end, named)


def _written(spec: Spec, writer: _Writer, rank: int, folder: Path) -> None:
    """The trace of a rank, and who it is."""
    events = writer.events
    planes = {plane: f"Plane {plane - 1}" for plane in range(1, 15)}
    lanes = [
        (group * 16 + plane, name)
        for group in range(len(_STREAMS))
        for plane, name in ({0: f"Group {group} Communication"} | planes).items()
    ]
    events += [
        {"ph": "M", "pid": _HCCL, "tid": tid, "name": "thread_name", "args": {"name": name}} for tid, name in lanes
    ]
    events += [{"ph": "M", "pid": _DEVICE, "tid": stream, "name": "thread_name", "args": {"name": f"Stream {stream}"}}
               for stream in (_COMPUTE, *_STREAMS.values())]  # fmt: skip
    output = folder / "ASCEND_PROFILER_OUTPUT"
    output.mkdir(parents=True)
    (output / "trace_view.json").write_text(json.dumps(events))
    (folder / f"profiler_info_{rank}.json").write_text("{}")
    if not spec.told:
        return
    sizes = {"tensor_model_parallel_size": 1, "pipeline_model_parallel_size": spec.stages}
    sizes |= {"data_parallel_size": spec.replicas, "world_size": spec.stages * spec.replicas}
    (folder / "profiler_metadata.json").write_text(json.dumps({"distributed_args": sizes | {"rank": rank}}))


def job_of(spec: Spec, folder: Path) -> tuple[Job, float]:
    """The job of ``spec``, its traces in ``folder``, and how long a step takes, ns."""
    step = write(spec, folder)
    return open_job(folder, traces=True), step


def healthy(spec: Spec) -> Spec:
    """The same run without its trouble."""
    return replace(spec, slow=None, late=None, slow_rank=None)


_STAGE, _PAIR = "RANK.STAGE", "PIPELINE.TRANSFER"
_WIDE = Spec(replicas=2, micro=8)

SITUATIONS: dict[str, tuple[Spec, str | None, tuple[int, ...]]] = {
    "first stage slow": (Spec(slow=(0, 0.4)), _STAGE, (0,)),
    "middle stage slow": (Spec(slow=(2, 0.3)), _STAGE, (2,)),
    "last stage slow": (Spec(slow=(3, 0.35)), _STAGE, (3,)),
    "two stages, second slow": (Spec(stages=2, slow=(1, 0.4)), _STAGE, (1,)),
    "eight stages, fifth slow": (Spec(stages=8, micro=16, slow=(4, 0.25)), _STAGE, (4,)),
    "six stages, second slow": (Spec(stages=6, micro=9, slow=(1, 0.4)), _STAGE, (1,)),
    "few micro batches, last slow": (Spec(micro=4, slow=(3, 0.4)), _STAGE, (3,)),
    "many micro batches, first slow": (Spec(micro=24, slow=(0, 0.2), steps=2), _STAGE, (0,)),
    "gpipe, third slow": (Spec(schedule="gpipe", slow=(2, 0.4)), _STAGE, (2,)),
    "interleaved, second slow": (Spec(schedule="interleaved", chunks=2, slow=(1, 0.4)), _STAGE, (1,)),
    "interleaved, two stages": (Spec(stages=2, schedule="interleaved", chunks=3, slow=(0, 0.4)), _STAGE, (0,)),
    "types only, last slow": (Spec(linked=False, slow=(3, 0.35)), _STAGE, (3,)),
    "computed again, third slow": (Spec(again=True, slow=(2, 0.35)), _STAGE, (2,)),
    "computed again, types only, last slow": (Spec(again=True, linked=False, slow=(3, 0.35)), _STAGE, (3,)),
    "computed again, together, late messages": (
        Spec(again=True, together=True, late=(1, 1_200_000, 1_200_000)), _PAIR, (1, 2)
    ),
    "even, computed again": (Spec(again=True), None, ()),
    "together, third slow": (Spec(together=True, slow=(2, 0.35)), _STAGE, (2,)),
    "together, two stages, first slow": (Spec(together=True, stages=2, slow=(0, 0.35)), _STAGE, (0,)),
    "together, late messages": (Spec(together=True, late=(1, 1_200_000, 1_200_000)), _PAIR, (1, 2)),
    "untold groups, third slow": (Spec(told=False, slow=(2, 0.35)), _STAGE, (2,)),
    "untold groups, two stages, second slow": (Spec(stages=2, told=False, slow=(1, 0.35)), _STAGE, (1,)),
    "messages sent late": (Spec(late=(1, 1_500_000, 0), posted=True), _PAIR, (1, 2)),
    "together, sent late": (Spec(late=(1, 1_500_000, 0), posted=True, together=True), _PAIR, (1, 2)),
    "even, together": (Spec(together=True), None, ()),
    "replicas, third slow": (replace(_WIDE, slow=(2, 0.35)), _STAGE, (4, 5)),
    "replicas, one rank slow": (replace(_WIDE, slow_rank=(1, 1, 0.4)), "RANK.SLOW", (3,)),
    "replicas, a rank lost, third slow": (replace(_WIDE, slow=(2, 0.35), lost=(2,)), _STAGE, (4, 5)),
    "third slow, without a profile": (Spec(slow=(2, 0.35), lost=(2,)), None, ()),
    "even, first without a profile": (Spec(lost=(0,)), None, ()),
    "late messages forward": (Spec(late=(1, 1_500_000, 0)), _PAIR, (1, 2)),
    "late messages back": (Spec(late=(0, 0, 1_500_000)), _PAIR, (1, 0)),
    "late messages both ways": (Spec(late=(2, 1_000_000, 1_000_000)), _PAIR, (2, 3)),
    "gpipe, late messages": (Spec(schedule="gpipe", late=(1, 2_000_000, 0)), _PAIR, (1, 2)),
    "replicas, late messages": (replace(_WIDE, late=(1, 1_500_000, 0)), _PAIR, (2, 4, 3, 5)),
    "interleaved, late messages": (Spec(schedule="interleaved", chunks=2, late=(1, 800_000, 0)), _PAIR, (1, 2)),
    "even": (Spec(), None, ()),
    "even, two stages": (Spec(stages=2), None, ()),
    "even, eight stages": (Spec(stages=8, micro=16, steps=2), None, ()),
    "even, gpipe": (Spec(schedule="gpipe"), None, ()),
    "even, interleaved": (Spec(schedule="interleaved", chunks=2), None, ()),
    "even, uneven passes": (Spec(noise=0.2, micro=12), None, ()),
    "even, replicas": (_WIDE, None, ()),
}  # fmt: skip
"""Situations with the finding that must come first and its ranks; None: no finding of the pipeline, nor of a rank."""


def judged(name: str, seed: int) -> tuple[list[Finding], Job, float, float]:
    """The findings of a situation, its job, the price of its cause in a second simulation, the length of a step; ns."""
    spec = replace(SITUATIONS[name][0], seed=seed)
    with TemporaryDirectory() as folder:
        job, step = job_of(spec, Path(folder))
        found = job_findings(job)
        return found, job, step - write(healthy(spec), None), step


def is_right(name: str, found: list[Finding]) -> bool:
    """Whether the cause comes first, or nothing is said of a healthy run."""
    _, cause, ranks = SITUATIONS[name]
    told = [finding for finding in found if finding.severity != "info"]
    if cause is None:
        return not told
    first = told[0] if told else None
    return (
        first is not None
        and first.id == cause
        and (set(first.ranks) == set(ranks) if cause == _PAIR else first.ranks == ranks)
    )


def what_ifs(spec: Spec, job: Job) -> list[tuple[int, float, float]]:
    """Other numbers of micro batches: what a step would gain by the what-if, and in a second simulation, ns."""
    rows, runs = [], job.pipelines
    for micro in (spec.micro // 2, spec.micro * 2):
        if runs.orders(micro):
            predicted = (runs.total() - runs.total(runs.gains(micro_batches(micro)))) / spec.steps
            rows.append((micro, predicted, write(spec, None) - write(replace(spec, micro=micro), None)))
    return rows


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Predicted against simulated gain of pipelines.")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seeds", type=int, default=20)
    options = parser.parse_args()
    print(f"{'pipeline':38}{'step ms':>9}{'said':>9}{'simulated':>11}{'named':>8}{'±10 %':>8}{'added up':>10}  what-if")
    for name, (spec, cause, _) in SITUATIONS.items():
        if options.names and not any(each in name for each in options.names):
            continue
        named = close = added = 0
        sums, first, worst = [0.0, 0.0, 0.0], set(), 0.0
        for seed in range(1, options.seeds + 1):
            found, job, price, step = judged(name, seed)
            said = (found[0].gain_ns or 0) / spec.steps if found and cause else 0.0
            named += is_right(name, found)
            close += abs(said - price) <= 0.1 * price if cause else True
            runs = job.pipelines
            added += bool(runs.runs) and runs.parts.sum(axis=1).tolist() == [run.length for run in runs.runs]
            sums = [total + value / options.seeds / 1e6 for total, value in zip(sums, (step, said, price), strict=True)]
            first.add(found[0].id if found else "-")
            seeded = replace(spec, seed=seed)
            worst = max([worst, *(abs(told - true) / max(abs(true), 1) for _, told, true in what_ifs(seeded, job))])
        numbers = f"{sums[0]:9.2f}{sums[1]:9.3f}{sums[2]:11.3f}"
        counts = f"{named:5}/{options.seeds}{close:5}/{options.seeds}{added:7}/{options.seeds}"
        print(f"{name:38}{numbers}{counts}  {worst:.1%}  {' '.join(sorted(first))}", flush=True)


if __name__ == "__main__":
    main()
