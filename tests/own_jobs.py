"""Further simulated jobs: causes that meet other kinds of jobs than those of ``cause_jobs`` and ``uneven_jobs``."""

from __future__ import annotations

from dataclasses import replace

from cause import FETCH_NS, Cause, changed, in_time, same, troubled, untroubled
from cause_jobs import CALM, DISPATCH, GRAPH, JOB
from dialect import DECIMAL, MSPROF, NEWEST, OLDER_CHIP
from situations import SlowLine, Uneven
from uneven_jobs import AHEAD, EXPERTS

_ON_TIME = untroubled(late_peer=None)
_DECODE = replace(
    CALM,
    decode=True,
    training=False,
    item_sync=True,
    step_end_sync=False,
    steps=16,
    losses=0,
    embedding=False,
    layers=4,
)
_TENSOR = replace(_DECODE, layers=3, world_size=4, tensor_parallel=True, token_bytes=100_000)
_UNHEARD = replace(CALM, with_waits=False)
_METRICS = replace(CALM, training=False, kernel_ns=300_000, host_op_ns=220_000, step_end_sync=False, steps=4)
_LINE = SlowLine("/workspace/vit/model.py", 64, 6_000_000)
_FETCHING = changed(dataloader_ns=FETCH_NS)

OWN: dict[str, Cause] = {
    "own: decode, tensor parallel, a late rank": Cause(
        (troubled(_TENSOR, late_peer=3, late_peer_ns=900_000),), _ON_TIME, ("COMM.STRAGGLER",)
    ),
    "own: decode, tensor parallel, two late": Cause(
        (troubled(_TENSOR, late_peer=1, late_too=3, late_peer_ns=900_000),), _ON_TIME, ("COMM.STRAGGLER",)
    ),
    "own: decode, tensor parallel, late by little": Cause(
        (troubled(_TENSOR, late_peer=3, late_peer_ns=200_000),), _ON_TIME, ("COMM.STRAGGLER",)
    ),
    "own: decode, tensor parallel, Python between": Cause(
        (troubled(_TENSOR, between_ns=2_500_000),), untroubled(between_ns=0), ("HOST.WORK",)
    ),
    "own: tensor parallel, large sums": Cause(
        (replace(JOB, tensor_parallel=True, token_bytes=40_000_000, layers=3),),
        changed(sums_in_parts=True),
        ("COMM.EXPOSED",),
        others=("COMM.EXPOSED", "COMM.LINK", "OP.AFFINITY_KERNEL"),
    ),
    "own: tensor parallel, sums shorter than products": Cause(
        (replace(JOB, tensor_parallel=True, token_bytes=12_000_000, layers=3, gradient_bytes=400_000),),
        changed(sums_in_parts=True),
        ("COMM.EXPOSED",),
        others=("COMM.EXPOSED", "COMM.LINK", "OP.AFFINITY_KERNEL"),
    ),
    "own: inference, tensor parallel, large sums": Cause(
        (replace(JOB, tensor_parallel=True, token_bytes=30_000_000, layers=4, training=False),),
        changed(sums_in_parts=True),
        ("COMM.EXPOSED",),
        others=("COMM.EXPOSED", "COMM.LINK", "OP.AFFINITY_KERNEL"),
    ),
    "own: decode, a slow line": Cause(
        (replace(_DECODE, kernel_ns=300_000, slow_lines=(replace(_LINE, extra_ns=1_500_000),)),),
        changed(slow_lines=()),
        ("HOST.WORK",),
    ),
    "own: decode, sampling in many short operations": Cause(
        (
            troubled(
                replace(_DECODE, kernel_ns=150_000, with_stack=False),
                sort_ns=1_200_000,
                sort_parts=14,
            ),
        ),
        untroubled(sort_ns=0),
        ("HOST.WORK",),
        others=("SYNC.HOST", *DISPATCH),
    ),
    "own: decode, allocation": Cause(
        (troubled(replace(_DECODE, kernel_ns=150_000), allocation_ns=900_000),),
        untroubled(allocation_ns=0),
        ("MEM.ALLOC",),
        others=(*DISPATCH, "OP.SMALL", "SYNC.HOST"),
    ),
    "own: no call that waits, slow fetch": Cause(
        (replace(_UNHEARD, dataloader_ns=30_000_000),), _FETCHING, ("DATA.LOADER",)
    ),
    "own: no call that waits, sorting": Cause(
        (troubled(replace(_UNHEARD, item_sync=True), sort_ns=9_000_000),), untroubled(sort_ns=0), ("HOST.WORK",)
    ),
    "own: no call that waits, metrics": Cause(
        (troubled(replace(_METRICS, with_waits=False), metric_reads=3, unread_metrics=3),),
        untroubled(metric_reads=0),
        ("SYNC.HOST",),
        also=(("HOST.WORK",),),
    ),
    "own: no call that waits, a late rank": Cause(
        (troubled(replace(JOB, with_waits=False), late_peer=1, late_peer_ns=9_000_000),), _ON_TIME, ("COMM.STRAGGLER",)
    ),
    "own: Level0, metrics": Cause(
        (troubled(replace(_METRICS, profiler_level=0), metric_reads=3, unread_metrics=3),),
        untroubled(metric_reads=0),
        ("SYNC.HOST",),
        also=(("HOST.WORK",),),
    ),
    "own: Level0, sorting": Cause(
        (troubled(replace(CALM, profiler_level=0, item_sync=True), sort_ns=9_000_000),),
        untroubled(sort_ns=0),
        ("HOST.WORK",),
    ),
    "own: Level0, collector": Cause(
        (troubled(replace(CALM, profiler_level=0), collection_ns=25_000_000),), untroubled(collection_ns=0), ("PY.GC",)
    ),
    "own: Level0, slow fetch, no stacks": Cause(
        (replace(CALM, profiler_level=0, with_stack=False, steps=5, dataloader_ns=25_000_000),),
        _FETCHING,
        ("DATA.LOADER",),
    ),
    "own: an older chip, tensor parallel, a late rank": Cause(
        (
            troubled(
                replace(JOB, dialect=OLDER_CHIP, tensor_parallel=True, token_bytes=400_000),
                late_peer=1,
                late_peer_ns=2_500_000,
            ),
        ),
        _ON_TIME,
        ("COMM.STRAGGLER",),
    ),
    "own: an older chip, blocking copies": Cause(
        (troubled(replace(AHEAD, dialect=OLDER_CHIP, copy_ns=8_000_000), blocking_copies=True),),
        lambda job: untroubled(blocking_copies=False)(changed(copy_ns=20_000)(job)),
        ("SYNC.HOST", "DATA.COPY", "STEP.START"),
    ),
    "own: decimal process ids, slow fetch": Cause(
        (replace(CALM, dialect=DECIMAL, with_stack=False, dataloader_ns=25_000_000),), _FETCHING, ("DATA.LOADER",)
    ),
    "own: newest, collector": Cause(
        (troubled(replace(CALM, dialect=NEWEST), collection_ns=25_000_000),), untroubled(collection_ns=0), ("PY.GC",)
    ),
    "own: msprof, a late rank": Cause(
        (troubled(replace(JOB, dialect=MSPROF, with_stack=False, steps=5), late_peer=1, late_peer_ns=9_000_000),),
        _ON_TIME,
        ("COMM.STRAGGLER",),
    ),
    "own: experts, slow fetch": Cause((replace(EXPERTS, dataloader_ns=30_000_000),), _FETCHING, ("DATA.LOADER",)),
    "own: weights gathered ahead, a late rank": Cause(
        (
            troubled(
                replace(JOB, layers=6, gradient_bytes=2_000_000, sharded="ahead"), late_peer=3, late_peer_ns=5_000_000
            ),
        ),
        _ON_TIME,
        ("COMM.STRAGGLER",),
    ),
    "own: weights gathered late, training": Cause(
        (replace(JOB, layers=5, gradient_bytes=60_000_000, sharded="late"),),
        changed(sharded="ahead"),
        ("COMM.EXPOSED",),
        others=("COMM.EXPOSED", "COMM.LINK", "COMM.LONGOP"),
    ),
    "own: slow fetch and a pause": Cause(
        (troubled(replace(CALM, with_stack=False, dataloader_ns=19_000_000), silent_ns=14_000_000),),
        lambda job: untroubled(silent_ns=0)(_FETCHING(job)),
        ("DATA.LOADER", "HOST.PAUSE"),
        also=(("DATA.LOADER", "HOST.PAUSE"),),
    ),
    "own: sorting and AI CPU": Cause(
        (troubled(replace(CALM, item_sync=True), sort_ns=9_000_000, ai_cpu_ns=14_000_000),),
        untroubled(sort_ns=0, ai_cpu_ns=10_000),
        ("HOST.WORK", "KERNEL.BOUND"),
        also=(("HOST.WORK", "KERNEL.BOUND"),),
    ),
    "own: a copy to the host and a late rank": Cause(
        (troubled(replace(JOB, steps=5, layers=4), late_peer=2, late_peer_ns=7_000_000, read_back_ns=12_000_000),),
        untroubled(late_peer=None, read_back_ns=0),
        ("COMM.STRAGGLER", "SYNC.HOST", "DATA.COPY"),
        also=(("COMM.STRAGGLER", "SYNC.HOST", "DATA.COPY"),),
    ),
    "own: other lengths, a late rank": Cause(
        (
            troubled(
                replace(JOB, steps=6, uneven=Uneven(lengths=(100, 60, 190, 140, 80))),
                late_peer=2,
                late_peer_ns=9_000_000,
            ),
        ),
        _ON_TIME,
        ("COMM.STRAGGLER",),
    ),
    "own: gradients in one bucket": Cause(
        (replace(JOB, layers=5, gradient_bytes=50_000_000, one_bucket=True),),
        changed(one_bucket=False),
        ("COMM.EXPOSED",),
        others=("COMM.EXPOSED", "COMM.LINK", "COMM.LONGOP"),
    ),
    "own: gradients in one bucket, accumulation": Cause(
        (replace(JOB, layers=6, gradient_bytes=90_000_000, one_bucket=True, uneven=Uneven(micro_steps=2)),),
        changed(one_bucket=False),
        ("COMM.EXPOSED",),
        others=("COMM.EXPOSED", "COMM.LINK", "COMM.LONGOP"),
    ),
    "own: sorting on the host what was copied back": Cause(
        (troubled(replace(CALM, item_sync=True, kernel_ns=300_000), sort_ns=7_000_000, sort_copy_ns=3_000_000),),
        untroubled(sort_ns=0, sort_copy_ns=0),
        ("HOST.WORK",),
    ),
    "own: chains of elementwise kernels": Cause(
        (replace(CALM, chain=12, layers=3, kernel_ns=260_000),), changed(chain=1), ("OP.AFFINITY_KERNEL",)
    ),
    "own: a slow link": Cause(
        (troubled(replace(JOB, layers=5, gradient_bytes=24_000_000), slow_link=2, link_slower=12),),
        untroubled(slow_link=None),
        ("COMM.LINK",),
    ),
    "own: slow transfers now and then": Cause(
        (troubled(replace(JOB, layers=5, gradient_bytes=12_000_000), slow_once=30),),
        untroubled(slow_once=1),
        ("COMM.LONGOP",),
    ),
    "own: decode, tensor parallel, slow transfers now and then": Cause(
        (troubled(replace(_TENSOR, token_bytes=400_000), slow_once=30),),
        untroubled(slow_once=1),
        ("COMM.LONGOP",),
        others=("COMM.EXPOSED",),
    ),
    "own: a slow link of eight, reductions that block": Cause(
        (
            troubled(
                replace(JOB, world_size=8, rank=3, gradient_bytes=30_000_000, layers=4, blocking_reductions=True),
                slow_link=7,
                link_slower=6,
            ),
        ),
        untroubled(slow_link=None),
        ("COMM.LINK",),
        others=("COMM.EXPOSED",),
    ),
    "own: small kernels of a graph": Cause(
        (replace(GRAPH, kernel_ns=9_000, task_gap_ns=6_000, layers=40, steps=8),),
        changed(task_gap_ns=0),
        ("DISPATCH.FREE",),
        others=("OP.SMALL", "SYNC.HOST", *DISPATCH),
    ),
    "own: a clock that falls": Cause(
        (troubled(replace(CALM, steps=6, step_end_sync=False), core_mhz=1_100, clock_step=3),),
        untroubled(core_mhz=1_800),
        ("FREQ",),
    ),
    "own: a clock that falls while the host is slow": Cause(
        (troubled(replace(CALM, steps=6, host_op_ns=280_000, kernel_ns=90_000), core_mhz=1_200, clock_step=3),),
        untroubled(core_mhz=1_800),
        ("FREQ",),
        gains_nothing=True,
    ),
    "own: kernels beside reductions": Cause(
        (troubled(replace(JOB, layers=6, gradient_bytes=90_000_000), beside_percent=150),),
        untroubled(beside_percent=100),
        ("COMM.BESIDE",),
        others=("COMM.EXPOSED", "COMM.LINK"),
    ),
    "own: a late rank of thirty-two": Cause(
        (troubled(replace(JOB, world_size=32, steps=4), late_peer=21, late_peer_ns=11_000_000),),
        _ON_TIME,
        ("COMM.STRAGGLER",),
    ),
    "own: eight ranks, one that fetches": Cause(
        tuple(
            replace(JOB, kernel_ns=200_000, with_stack=False, steps=4, rank=rank, world_size=8, dataloader_ns=fetch)
            for rank, fetch in enumerate((*(FETCH_NS,) * 5, 22_000_000, *(FETCH_NS,) * 2))
        ),
        in_time(5),
        ("COMM.STRAGGLER",),
    ),
    "own: a slow first product of six": Cause(
        (
            troubled(
                replace(AHEAD, embedding=False, layers=6, modules=3, kernel_ns=60_000, host_op_ns=10_000, steps=8),
                outlier=60,
            ),
        ),
        untroubled(outlier=1),
        ("OP.OUTLIER",),
    ),
    "own: short steps, collector": Cause(
        (troubled(replace(CALM, layers=1, steps=20, kernel_ns=80_000), collection_ns=2_000_000),),
        untroubled(collection_ns=0),
        ("PY.GC",),
        others=("SYNC.HOST", "OP.DOMINANT", "STEP.START", *DISPATCH),
    ),
    "nothing: no call that waits": Cause((_UNHEARD,), same, ()),
    "nothing: no call that waits, four devices": Cause((replace(JOB, with_waits=False, item_sync=True),), same, ()),
    "nothing: no call that waits, decode": Cause((replace(_DECODE, with_waits=False),), same, ()),
    "nothing: decode, tensor parallel": Cause((_TENSOR,), same, ()),
    "nothing: decimal process ids": Cause((replace(CALM, dialect=DECIMAL, with_stack=False),), same, ()),
}
