"""Simulated jobs with one cause each, and what they are without it; a name begins with the part that it tries."""

from __future__ import annotations

from dataclasses import replace

from cause import FETCH_NS, Cause, changed, in_time, ranks_of, same, troubled, untroubled
from dialect import OLDER_CHIP
from situations import SlowLine
from troubled import TROUBLED

DISPATCH = ("DISPATCH.VERTICAL", "DISPATCH.FREE", "DISPATCH.STAGE", "DISPATCH.INTERRUPT")

#: A job with nothing to say about, and one on four devices.
CALM = replace(TROUBLED["healthy"], world_size=1)
JOB = replace(TROUBLED["healthy"], world_size=4, gradient_bytes=2_000_000)
HUNGRY = replace(TROUBLED["slow_python"], slow_lines=(), step_end_sync=True, layers=12)
SLOW_LINE = SlowLine("/workspace/vit/model.py", 64, 8_000_000)
_SIX = replace(JOB, steps=6)
_LATE = troubled(JOB, late_peer=2, late_peer_ns=12_000_000)
_LEVEL0 = replace(_SIX, profiler_level=0)
_ON_TIME = untroubled(late_peer=None)
_MET = replace(JOB, kernel_ns=200_000, steps=3, with_stack=False)
_GROUPS = replace(JOB, tensor_bytes=2_000_000, layers=3)
_METRICS = replace(CALM, training=False, kernel_ns=300_000, host_op_ns=220_000, step_end_sync=False, steps=4)
_DECODE = replace(
    CALM, decode=True, training=False, item_sync=True, step_end_sync=False, steps=24, losses=0, embedding=False
)
GRAPH = replace(_DECODE, graph=True, layers=8, kernel_ns=190_000)

CAUSES: dict[str, Cause] = {
    "host: slow fetch": Cause(
        (replace(CALM, dataloader_ns=40_000_000),), changed(dataloader_ns=FETCH_NS), ("DATA.LOADER",)
    ),
    "host: slow line": Cause((replace(CALM, slow_lines=(SLOW_LINE,)),), changed(slow_lines=()), ("HOST.WORK",)),
    "host: slow Python": Cause(
        (replace(HUNGRY, kernel_ns=60_000, host_op_ns=300_000),), changed(host_op_ns=2_000), (*DISPATCH, "OP.SMALL")
    ),
    "host: slow Python, four devices": Cause(
        (replace(HUNGRY, kernel_ns=60_000, host_op_ns=300_000, world_size=4, gradient_bytes=2_000_000),),
        changed(host_op_ns=2_000),
        (*DISPATCH, "OP.SMALL"),
    ),
    "host: both stages": Cause(
        (replace(HUNGRY, kernel_ns=60_000, host_op_ns=190_000, compile_permille=150, compile_ns=2_000_000),),
        changed(host_op_ns=2_000, compile_permille=0),
        (*DISPATCH, "OP.SMALL", "OP.COMPILE"),
        also=(("OP.COMPILE", *DISPATCH),),
    ),
    "host: compiling": Cause(
        (replace(CALM, compile_permille=1000, compile_ns=4_500_000),), changed(compile_permille=0), ("OP.COMPILE",)
    ),
    "host: collector": Cause((troubled(CALM, collection_ns=40_000_000),), untroubled(collection_ns=0), ("PY.GC",)),
    "host: allocation": Cause((troubled(CALM, allocation_ns=2_500_000),), untroubled(allocation_ns=0), ("MEM.ALLOC",)),
    "host: step start": Cause((troubled(CALM, setup_ns=15_000_000),), untroubled(setup_ns=0), ("HOST.WORK",)),
    "host: unrecorded pause": Cause(
        (replace(troubled(CALM, silent_ns=14_000_000), with_stack=False),),
        untroubled(silent_ns=0),
        ("HOST.PAUSE",),
    ),
    "host: checkpoint": Cause((troubled(CALM, pause_ns=30_000_000),), untroubled(pause_ns=0), ("HOST.WORK",)),
    "host: checkpoint, no stacks": Cause(
        (troubled(replace(CALM, with_stack=False), pause_ns=30_000_000),),
        untroubled(pause_ns=0),
        ("HOST.PAUSE",),
    ),
    "host: hidden fetch": Cause(
        (replace(CALM, step_end_sync=False, kernel_ns=600_000, dataloader_ns=9_000_000, steps=10),),
        changed(dataloader_ns=FETCH_NS),
        ("DATA.LOADER",),
    ),
    "host: fetch in one step": Cause(
        (replace(CALM, steps=6, stalled_step=3, stall_ns=70_000_000),), changed(stalled_step=-1), ("DATA.LOADER",)
    ),
    "host: a checkpoint after a copy": Cause(
        (troubled(CALM, pause_ns=30_000_000, read_back_ns=200_000),), untroubled(pause_ns=0), ("HOST.WORK",)
    ),
    "host: a checkpoint of a dozen copies": Cause(
        (troubled(replace(CALM, copy_ns=700_000), pause_ns=20_000_000, pause_copies=12),),
        lambda job: untroubled(pause_ns=0)(changed(copy_ns=140_000)(job)),
        ("HOST.PAUSE",),
    ),
    "host: short step start": Cause(
        (troubled(replace(CALM, steps=5), setup_ns=5_000_000),), untroubled(setup_ns=0), ("HOST.WORK",)
    ),
    "host: checkpoint at Level0": Cause(
        (replace(troubled(CALM, pause_ns=30_000_000), profiler_level=0),), untroubled(pause_ns=0), ("HOST.WORK",)
    ),
    "host: an earlier one": Cause(
        ranks_of(_MET, r0=9_000_000, r2=30_000_000), in_time(0), ("DATA.LOADER", "STEP.START"), gains_nothing=True
    ),
    "host: sorting before the backward pass": Cause(
        (troubled(replace(CALM, item_sync=True), sort_ns=7_000_000),), untroubled(sort_ns=0), ("HOST.WORK",)
    ),
    "host: sorting, four devices, no stacks": Cause(
        (troubled(replace(JOB, item_sync=True, with_stack=False), sort_ns=9_000_000),),
        untroubled(sort_ns=0),
        ("HOST.WORK",),
    ),
    "host: an optimizer on the CPU": Cause(
        (troubled(replace(CALM, steps=4), cpu_optimizer_ns=9_000_000),),
        untroubled(cpu_optimizer_ns=1_000),
        ("HOST.WORK",),
        others=("SYNC.HOST", "DATA.COPY", "DISPATCH.INTERRUPT"),
    ),
    "device: AI CPU": Cause((troubled(CALM, ai_cpu_ns=16_000_000),), untroubled(ai_cpu_ns=10_000), ("KERNEL.BOUND",)),
    "device: AI CPU, an older chip": Cause(
        (troubled(replace(CALM, dialect=OLDER_CHIP), ai_cpu_ns=20_000_000),),
        untroubled(ai_cpu_ns=10_000),
        ("KERNEL.BOUND",),
    ),
    "device: AI CPU for little": Cause(
        (troubled(replace(CALM, steps=5), ai_cpu_ns=6_000_000),), untroubled(ai_cpu_ns=10_000), ("KERNEL.BOUND",)
    ),
    "device: copies": Cause((replace(CALM, copy_ns=9_000_000),), changed(copy_ns=20_000), ("DATA.COPY",)),
    "device: outlier": Cause(
        (troubled(replace(CALM, embedding=False, layers=12, modules=3, kernel_ns=120_000), outlier=25),),
        untroubled(outlier=1),
        ("OP.OUTLIER",),
    ),
    "device: waits in a graph": Cause(
        (troubled(GRAPH, event_wait_ns=600_000),), untroubled(event_wait_ns=0), ("DEVICE.EVENT",)
    ),
    "peers: one late": Cause((_LATE,), _ON_TIME, ("COMM.STRAGGLER",)),
    "peers: the last of eight": Cause(
        (troubled(replace(JOB, world_size=8), late_peer=7, late_peer_ns=5_000_000),), _ON_TIME, ("COMM.STRAGGLER",)
    ),
    "peers: rank 0, on an older chip": Cause(
        (troubled(replace(JOB, rank=3, dialect=OLDER_CHIP), late_peer=0, late_peer_ns=20_000_000),),
        _ON_TIME,
        ("COMM.STRAGGLER",),
    ),
    "peers: two late": Cause((troubled(_LATE, late_too=3),), _ON_TIME, ("COMM.STRAGGLER",)),
    "peers: another each time": Cause(
        (troubled(_SIX, late_peer=2, late_peer_ns=12_000_000, late_changes=True),), _ON_TIME, ("COMM.STRAGGLER",)
    ),
    "peers: eight take turns": Cause(
        (troubled(replace(_SIX, world_size=8), late_peer=2, late_peer_ns=8_000_000, late_changes=True),),
        _ON_TIME,
        ("COMM.STRAGGLER",),
    ),
    "peers: one late, a longer fetch": Cause(
        (replace(_LATE, dataloader_ns=60_000_000),),
        changed(dataloader_ns=FETCH_NS),
        ("DATA.LOADER",),
        others=("COMM.EXPOSED", "COMM.STRAGGLER"),
    ),
    "peers: late now and then": Cause(
        (troubled(_SIX, late_peer=2, late_peer_ns=12_000_000, late_once=True),), _ON_TIME, ("COMM.STRAGGLER",)
    ),
    "peers: unseen in a ring": Cause(
        (troubled(replace(_LATE, world_size=6), neighbours=True),), _ON_TIME, ("COMM.STRAGGLER",)
    ),
    "peers: behind a ring": Cause(
        (troubled(replace(_LATE, world_size=8), neighbours=True, behind=True),), _ON_TIME, ("COMM.STRAGGLER",)
    ),
    "peers: behind a ring, by little": Cause(
        (troubled(replace(_SIX, world_size=8), late_peer=5, late_peer_ns=8_000_000, neighbours=True, behind=True),),
        _ON_TIME,
        ("COMM.STRAGGLER",),
    ),
    "groups: late in the tensor group": Cause(
        (troubled(_GROUPS, late_peer=2, late_peer_ns=9_000_000, late_in=1),), _ON_TIME, ("COMM.STRAGGLER",)
    ),
    "groups: late in the data group": Cause(
        (troubled(_GROUPS, late_peer=2, late_peer_ns=12_000_000, late_in=0),), _ON_TIME, ("COMM.STRAGGLER",)
    ),
    "groups: two late in the tensor group": Cause(
        (troubled(_GROUPS, late_peer=1, late_too=3, late_peer_ns=9_000_000, late_in=1),), _ON_TIME, ("COMM.STRAGGLER",)
    ),
    "groups: a hot expert": Cause(
        (troubled(replace(_GROUPS, experts=True, token_bytes=400_000), hot_expert=3, hot_percent=2_500),),
        untroubled(hot_expert=None),
        ("COMM.STRAGGLER",),
    ),
    "nothing: two groups": Cause((_GROUPS,), same, ()),
    "peers: at Level0": Cause(
        (troubled(_LEVEL0, late_peer=2, late_peer_ns=12_000_000, late_once=True),), _ON_TIME, ("COMM.EXPOSED",)
    ),
    "peers: always late at Level0": Cause(
        (troubled(_LEVEL0, late_peer=2, late_peer_ns=12_000_000),), _ON_TIME, ("COMM.EXPOSED",)
    ),
    "peers: a rank that fetches": Cause(ranks_of(_MET, r2=30_000_000), in_time(2), ("COMM.STRAGGLER",)),
    "peers: two that fetch": Cause(ranks_of(_MET, r2=40_000_000, r3=22_000_000), in_time(2, 3), ("COMM.STRAGGLER",)),
    "peers: this one": Cause(ranks_of(_MET, r0=30_000_000), in_time(0), ("DATA.LOADER", "STEP.START")),
    "peers: one late, events lost": Cause((replace(_LATE, with_events=False),), _ON_TIME, ("COMM.STRAGGLER",)),
    "peers: reductions that block": Cause(
        (replace(JOB, layers=6, gradient_bytes=160_000_000, blocking_reductions=True),),
        changed(blocking_reductions=False),
        ("COMM.EXPOSED",),
        others=("COMM.EXPOSED", "COMM.LINK", "COMM.LONGOP"),
    ),
    "peers: little computed after reductions": Cause(
        (replace(JOB, layers=5, kernel_ns=60_000, gradient_bytes=200_000_000, blocking_reductions=True),),
        changed(blocking_reductions=False),
        ("COMM.EXPOSED",),
        others=("COMM.EXPOSED", "COMM.LINK", "COMM.LONGOP"),
    ),
    "peers: weights gathered late": Cause(
        (replace(JOB, layers=6, gradient_bytes=90_000_000, training=False, sharded="late"),),
        changed(sharded="ahead"),
        ("COMM.EXPOSED",),
        others=("COMM.EXPOSED", "COMM.LINK", "COMM.LONGOP"),
    ),
    "peers: a late rank, tensor parallel": Cause(
        (troubled(replace(_LATE, tensor_parallel=True, token_bytes=400_000), late_peer_ns=3_000_000),),
        _ON_TIME,
        ("COMM.STRAGGLER",),
    ),
    "waits: metrics": Cause(
        (troubled(_METRICS, metric_reads=3, unread_metrics=3),),
        untroubled(metric_reads=0),
        ("SYNC.HOST",),
        also=(("HOST.WORK",),),
    ),
    "waits: many short ones": Cause(
        (troubled(replace(CALM, layers=4, kernel_ns=300_000), reads_in_modules=True),),
        untroubled(reads_in_modules=False),
        ("SYNC.HOST",),
    ),
    "waits: launch blocking": Cause(
        (troubled(replace(CALM, kernel_ns=300_000), launch_blocking=True),),
        untroubled(launch_blocking=False),
        ("SYNC.HOST",),
    ),
    "waits: blocking, small kernels": Cause(
        (troubled(replace(CALM, kernel_ns=60_000), launch_blocking=True),),
        untroubled(launch_blocking=False),
        ("SYNC.HOST",),
        others=("SYNC.HOST", "STEP.START", "OPT.FUSED", *DISPATCH),
    ),
    "decode: slow Python": Cause(
        (replace(_DECODE, layers=4, kernel_ns=150_000, host_op_ns=500_000),),
        changed(host_op_ns=2_000),
        (*DISPATCH, "OP.SMALL"),
    ),
    "decode: Python between tokens": Cause(
        (troubled(replace(GRAPH, kernel_ns=300_000), between_ns=1_300_000),),
        untroubled(between_ns=0),
        ("HOST.WORK",),
    ),
    "decode: Python between tokens, for a tenth of them": Cause(
        (troubled(replace(GRAPH, kernel_ns=120_000), between_ns=680_000),),
        untroubled(between_ns=0),
        ("HOST.WORK",),
        others=("SYNC.HOST", "DISPATCH.STAGE", "DISPATCH.INTERRUPT"),
    ),
    "decode: sampling on the CPU": Cause(
        (troubled(replace(_DECODE, layers=4, kernel_ns=150_000), sort_ns=900_000, read_back_ns=260_000),),
        untroubled(sort_ns=0),
        ("HOST.WORK",),
        others=("SYNC.HOST", "DATA.COPY", *DISPATCH),
    ),
    "nothing: a server without requests": Cause(
        (troubled(replace(_DECODE, layers=4, kernel_ns=420_000), request_ns=60_000_000),), same, ()
    ),
    "nothing: a server without requests, no stacks": Cause(
        (troubled(replace(_DECODE, layers=4, kernel_ns=420_000, with_stack=False), request_ns=60_000_000),), same, ()
    ),
    "decode: Python between tokens, few requests": Cause(
        (troubled(replace(GRAPH, kernel_ns=300_000), between_ns=2_500_000, request_ns=40_000_000),),
        untroubled(between_ns=0),
        ("HOST.WORK",),
    ),
    "nothing: sorting beside the device": Cause(
        (troubled(replace(CALM, step_end_sync=False, kernel_ns=900_000, steps=4), sort_ns=4_000_000),), same, ()
    ),
    "nothing: one device": Cause((CALM,), same, ()),
    "nothing: four devices": Cause((JOB,), same, ()),
    "nothing: four ranks": Cause(ranks_of(_MET), same, ()),
    "nothing: four ranks, more steps": Cause(ranks_of(replace(_MET, steps=5)), same, ()),
    "nothing: tensor parallel": Cause((replace(JOB, tensor_parallel=True, token_bytes=400_000),), same, ()),
    "nothing: tensor parallel, larger": Cause(
        (replace(JOB, tensor_parallel=True, token_bytes=2_000_000),), same, (), others=("OP.AFFINITY_KERNEL",)
    ),
    "nothing: weights gathered ahead": Cause(
        (replace(JOB, layers=6, gradient_bytes=2_000_000, sharded="ahead"),), same, ()
    ),
    "nothing: Level0": Cause((_LEVEL0,), same, ()),
    "nothing: events lost": Cause((replace(JOB, with_events=False),), same, ()),
    "nothing: no stacks": Cause((replace(CALM, with_stack=False),), same, ()),
    "nothing: an older chip": Cause((replace(JOB, dialect=OLDER_CHIP),), same, ()),
    "nothing: far ahead": Cause((replace(CALM, step_end_sync=False, steps=5),), same, ()),
    "nothing: warm-up": Cause((replace(CALM, steps=5, stalled_step=0, stall_ns=80_000_000),), same, ()),
    "nothing: parameters one by one": Cause(
        (replace(CALM, step_end_sync=False, steps=4, host_op_ns=6_000, parameters=40),), same, ()
    ),
    "nothing: a graph": Cause((replace(GRAPH, kernel_ns=300_000),), same, ()),
    "nothing: decode, small AI CPU kernels": Cause((troubled(replace(_DECODE, layers=4), ai_cpu_ns=10_000),), same, ()),
    "nothing: decode": Cause((replace(_DECODE, layers=4),), same, ()),
}
