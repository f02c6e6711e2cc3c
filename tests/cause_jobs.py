"""Simulated jobs with one cause each, and what they are without it; a name begins with the part that it tries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from dialect import OLDER_CHIP
from situations import Situation, SlowLine
from troubled import TROUBLED

Job = tuple[Situation, ...]
"""The ranks of a job; findings are those of the first."""


@dataclass(frozen=True)
class Cause:
    """A job and what it is without its cause; ``leads`` are the findings that may name it.

    Without ``leads`` nothing is wrong with the job. A cause that ``gains_nothing`` is found, but leads nothing;
    ``others`` are findings about what else is wrong and stays so.
    """

    job: Job
    remedy: Callable[[Job], Job]
    leads: tuple[str, ...]
    gains_nothing: bool = False
    others: tuple[str, ...] = ()


def _first(change: Callable[[Situation], Situation]) -> Callable[[Job], Job]:
    return lambda job: (change(job[0]), *job[1:])


def _trouble(**values: object) -> Callable[[Job], Job]:
    return _first(lambda rank: _with(rank, **values))


def _job(**values: object) -> Callable[[Job], Job]:
    return _first(lambda rank: replace(rank, **values))


def _with(job: Situation, **values: object) -> Situation:
    return replace(job, trouble=replace(job.trouble, **values))


def _same(job: Job) -> Job:
    return job


def _ranks(job: Situation, **fetching: int) -> Job:
    """Four ranks of ``job`` that meet in its collectives; ``r2=9_000_000`` is how long rank 2 fetches a batch."""
    return tuple(
        replace(job, rank=rank, world_size=4, dataloader_ns=fetching.get(f"r{rank}", job.dataloader_ns))
        for rank in range(4)
    )


def _in_time(*ranks: int) -> Callable[[Job], Job]:
    return lambda job: tuple(replace(each, dataloader_ns=_FETCH) if each.rank in ranks else each for each in job)


_FETCH = 180_000
_DISPATCH = ("DISPATCH.VERTICAL", "DISPATCH.FREE", "DISPATCH.STAGE", "DISPATCH.INTERRUPT")

#: A job with nothing to say about, and one on four devices.
_CALM = replace(TROUBLED["healthy"], world_size=1)
_JOB = replace(TROUBLED["healthy"], world_size=4, gradient_bytes=2_000_000)
_HUNGRY = replace(TROUBLED["slow_python"], slow_lines=(), step_end_sync=True, layers=12)
_LINE = SlowLine("/workspace/vit/model.py", 64, 8_000_000)
_SIX = replace(_JOB, steps=6)
_LATE = _with(_JOB, late_peer=2, late_peer_ns=12_000_000)
_LEVEL0 = replace(_SIX, profiler_level=0)
_ON_TIME = _trouble(late_peer=None)
_MET = replace(_JOB, kernel_ns=200_000, steps=3, with_stack=False)
_METRICS = replace(_CALM, training=False, kernel_ns=300_000, host_op_ns=220_000, step_end_sync=False, steps=4)
_DECODE = replace(
    _CALM, decode=True, training=False, item_sync=True, step_end_sync=False, steps=24, losses=0, embedding=False
)
_GRAPH = replace(_DECODE, graph=True, layers=8, kernel_ns=190_000)

CAUSES: dict[str, Cause] = {
    "host: slow fetch": Cause(
        (replace(_CALM, dataloader_ns=40_000_000),), _job(dataloader_ns=_FETCH), ("DATA.LOADER",)
    ),
    "host: slow line": Cause((replace(_CALM, slow_lines=(_LINE,)),), _job(slow_lines=()), ("HOST.PAUSE", *_DISPATCH)),
    "host: slow Python": Cause(
        (replace(_HUNGRY, kernel_ns=60_000, host_op_ns=300_000),), _job(host_op_ns=2_000), (*_DISPATCH, "OP.SMALL")
    ),
    "host: slow Python, four devices": Cause(
        (replace(_HUNGRY, kernel_ns=60_000, host_op_ns=300_000, world_size=4, gradient_bytes=2_000_000),),
        _job(host_op_ns=2_000),
        (*_DISPATCH, "OP.SMALL"),
    ),
    "host: both stages": Cause(
        (replace(_HUNGRY, kernel_ns=60_000, host_op_ns=190_000, compile_permille=150, compile_ns=2_000_000),),
        _job(host_op_ns=2_000, compile_permille=0),
        (*_DISPATCH, "OP.SMALL"),
    ),
    "host: compiling": Cause(
        (replace(_CALM, compile_permille=1000, compile_ns=4_500_000),), _job(compile_permille=0), ("OP.COMPILE",)
    ),
    "host: collector": Cause((_with(_CALM, collection_ns=40_000_000),), _trouble(collection_ns=0), ("PY.GC",)),
    "host: allocation": Cause((_with(_CALM, allocation_ns=2_500_000),), _trouble(allocation_ns=0), ("MEM.ALLOC",)),
    "host: step start": Cause((_with(_CALM, setup_ns=15_000_000),), _trouble(setup_ns=0), ("STEP.START",)),
    "host: unrecorded pause": Cause(
        (replace(_with(_CALM, silent_ns=14_000_000), with_stack=False),),
        _trouble(silent_ns=0),
        ("HOST.PAUSE",),
    ),
    "host: checkpoint": Cause((_with(_CALM, pause_ns=30_000_000),), _trouble(pause_ns=0), ("HOST.PAUSE",)),
    "host: checkpoint, no stacks": Cause(
        (_with(replace(_CALM, with_stack=False), pause_ns=30_000_000),),
        _trouble(pause_ns=0),
        ("HOST.PAUSE",),
    ),
    "host: hidden fetch": Cause(
        (replace(_CALM, step_end_sync=False, kernel_ns=600_000, dataloader_ns=9_000_000, steps=10),),
        _job(dataloader_ns=_FETCH),
        ("DATA.LOADER",),
    ),
    "host: fetch in one step": Cause(
        (replace(_CALM, steps=6, stalled_step=3, stall_ns=70_000_000),), _job(stalled_step=-1), ("DATA.LOADER",)
    ),
    "host: short step start": Cause(
        (_with(replace(_CALM, steps=5), setup_ns=5_000_000),), _trouble(setup_ns=0), ("STEP.START", "HOST.PAUSE")
    ),
    "host: checkpoint at Level0": Cause(
        (replace(_with(_CALM, pause_ns=30_000_000), profiler_level=0),), _trouble(pause_ns=0), ("HOST.PAUSE",)
    ),
    "host: an earlier one": Cause(
        _ranks(_MET, r0=9_000_000, r2=30_000_000), _in_time(0), ("DATA.LOADER", "STEP.START"), gains_nothing=True
    ),
    "device: AI CPU": Cause((_with(_CALM, ai_cpu_ns=16_000_000),), _trouble(ai_cpu_ns=10_000), ("KERNEL.BOUND",)),
    "device: AI CPU, an older chip": Cause(
        (_with(replace(_CALM, dialect=OLDER_CHIP), ai_cpu_ns=20_000_000),),
        _trouble(ai_cpu_ns=10_000),
        ("KERNEL.BOUND",),
    ),
    "device: AI CPU for little": Cause(
        (_with(replace(_CALM, steps=5), ai_cpu_ns=6_000_000),), _trouble(ai_cpu_ns=10_000), ("KERNEL.BOUND",)
    ),
    "device: copies": Cause((replace(_CALM, copy_ns=9_000_000),), _job(copy_ns=20_000), ("DATA.COPY",)),
    "device: outlier": Cause(
        (_with(replace(_CALM, embedding=False, layers=12, modules=3, kernel_ns=120_000), outlier=25),),
        _trouble(outlier=1),
        ("OP.OUTLIER",),
    ),
    "device: waits in a graph": Cause(
        (_with(_GRAPH, event_wait_ns=600_000),), _trouble(event_wait_ns=0), ("DEVICE.EVENT",)
    ),
    "peers: one late": Cause((_LATE,), _ON_TIME, ("COMM.STRAGGLER",)),
    "peers: the last of eight": Cause(
        (_with(replace(_JOB, world_size=8), late_peer=7, late_peer_ns=5_000_000),), _ON_TIME, ("COMM.STRAGGLER",)
    ),
    "peers: rank 0, on an older chip": Cause(
        (_with(replace(_JOB, rank=3, dialect=OLDER_CHIP), late_peer=0, late_peer_ns=20_000_000),),
        _ON_TIME,
        ("COMM.STRAGGLER",),
    ),
    "peers: two late": Cause((_with(_LATE, late_too=3),), _ON_TIME, ("COMM.STRAGGLER",)),
    "peers: another each time": Cause(
        (_with(_SIX, late_peer=2, late_peer_ns=12_000_000, late_changes=True),), _ON_TIME, ("COMM.STRAGGLER",)
    ),
    "peers: eight take turns": Cause(
        (_with(replace(_SIX, world_size=8), late_peer=2, late_peer_ns=8_000_000, late_changes=True),),
        _ON_TIME,
        ("COMM.STRAGGLER",),
    ),
    "peers: one late, a longer fetch": Cause(
        (replace(_LATE, dataloader_ns=60_000_000),),
        _job(dataloader_ns=_FETCH),
        ("DATA.LOADER",),
        others=("COMM.EXPOSED", "COMM.STRAGGLER"),
    ),
    "peers: late now and then": Cause(
        (_with(_SIX, late_peer=2, late_peer_ns=12_000_000, late_once=True),), _ON_TIME, ("COMM.STRAGGLER",)
    ),
    "peers: unseen in a ring": Cause(
        (_with(replace(_LATE, world_size=6), neighbours=True),), _ON_TIME, ("COMM.STRAGGLER",)
    ),
    "peers: at Level0": Cause(
        (_with(_LEVEL0, late_peer=2, late_peer_ns=12_000_000, late_once=True),), _ON_TIME, ("COMM.EXPOSED",)
    ),
    "peers: always late at Level0": Cause(
        (_with(_LEVEL0, late_peer=2, late_peer_ns=12_000_000),), _ON_TIME, ("COMM.EXPOSED",)
    ),
    "peers: a rank that fetches": Cause(_ranks(_MET, r2=30_000_000), _in_time(2), ("COMM.STRAGGLER",)),
    "peers: two that fetch": Cause(_ranks(_MET, r2=40_000_000, r3=22_000_000), _in_time(2, 3), ("COMM.STRAGGLER",)),
    "peers: this one": Cause(_ranks(_MET, r0=30_000_000), _in_time(0), ("DATA.LOADER", "STEP.START")),
    "waits: metrics": Cause(
        (_with(_METRICS, metric_reads=3, unread_metrics=3),), _trouble(metric_reads=0), ("SYNC.HOST",)
    ),
    "waits: many short ones": Cause(
        (_with(replace(_CALM, layers=4, kernel_ns=300_000), reads_in_modules=True),),
        _trouble(reads_in_modules=False),
        ("SYNC.HOST",),
    ),
    "waits: launch blocking": Cause(
        (_with(replace(_CALM, kernel_ns=300_000), launch_blocking=True),),
        _trouble(launch_blocking=False),
        ("SYNC.HOST",),
    ),
    "waits: blocking, small kernels": Cause(
        (_with(replace(_CALM, kernel_ns=60_000), launch_blocking=True),),
        _trouble(launch_blocking=False),
        ("SYNC.HOST",),
        others=("SYNC.HOST", "STEP.START", "OPT.FUSED", *_DISPATCH),
    ),
    "decode: slow Python": Cause(
        (replace(_DECODE, layers=4, kernel_ns=150_000, host_op_ns=500_000),),
        _job(host_op_ns=2_000),
        (*_DISPATCH, "OP.SMALL"),
    ),
    "nothing: one device": Cause((_CALM,), _same, ()),
    "nothing: four devices": Cause((_JOB,), _same, ()),
    "nothing: four ranks": Cause(_ranks(_MET), _same, ()),
    "nothing: four ranks, more steps": Cause(_ranks(replace(_MET, steps=5)), _same, ()),
    "nothing: Level0": Cause((_LEVEL0,), _same, ()),
    "nothing: no stacks": Cause((replace(_CALM, with_stack=False),), _same, ()),
    "nothing: an older chip": Cause((replace(_JOB, dialect=OLDER_CHIP),), _same, ()),
    "nothing: far ahead": Cause((replace(_CALM, step_end_sync=False, steps=5),), _same, ()),
    "nothing: warm-up": Cause((replace(_CALM, steps=5, stalled_step=0, stall_ns=80_000_000),), _same, ()),
    "nothing: a graph": Cause((replace(_GRAPH, kernel_ns=300_000),), _same, ()),
    "nothing: decode, small AI CPU kernels": Cause((_with(replace(_DECODE, layers=4), ai_cpu_ns=10_000),), _same, ()),
    "nothing: decode": Cause((replace(_DECODE, layers=4),), _same, ()),
}
