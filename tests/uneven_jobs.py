"""Simulated jobs whose steps, ranks or streams differ, of several causes at once, and healthy ones of each kind."""

from __future__ import annotations

from dataclasses import replace

from cause import FETCH_NS, Cause, changed, in_time, ranks_of, same, troubled, untroubled
from cause_jobs import CALM, DISPATCH, HUNGRY, JOB
from dialect import OLDER_CHIP
from situations import Situation, SlowLine, Uneven

_LINE = SlowLine("/workspace/vit/model.py", 64, 14_000_000)
_ACCUMULATE = replace(JOB, kernel_ns=200_000, steps=2, uneven=Uneven(micro_steps=4))
_WIDE = replace(JOB, steps=6, world_size=8)
_LENGTHS = replace(CALM, steps=6, uneven=Uneven(lengths=(100, 60, 190, 140, 80)))
AHEAD = replace(CALM, step_end_sync=False, steps=6)
#: The host is far ahead, so that launches do not tell how far the clocks are apart.
_APART = replace(AHEAD, clock_offset_ns=365_000, item_sync=True, layers=12, steps=4)
_TOKENS = replace(
    CALM,
    decode=True,
    training=False,
    item_sync=True,
    step_end_sync=False,
    steps=24,
    losses=0,
    embedding=False,
    layers=4,
    uneven=Uneven(lengths=(1500, *(100,) * 11)),
)
EXPERTS = replace(JOB, experts=True, token_bytes=400_000, steps=3)
_STAGE = replace(
    JOB,
    rank=3,
    stage_ns=18_000_000,
    kernel_ns=200_000,
    gradient_bytes=600_000,
    steps=2,
    uneven=Uneven(micro_steps=12),
)


def _uneven(job: Situation, **values: object) -> Situation:
    return replace(job, uneven=replace(job.uneven, **values))


UNEVEN: dict[str, Cause] = {
    "uneven: accumulation, slow fetch": Cause(
        (replace(_ACCUMULATE, dataloader_ns=25_000_000),), changed(dataloader_ns=FETCH_NS), ("DATA.LOADER",)
    ),
    "uneven: accumulation that reduces in each pass": Cause(
        (replace(JOB, layers=5, gradient_bytes=160_000_000, steps=2, uneven=Uneven(micro_steps=3, reduced_each=True)),),
        changed(uneven=Uneven(micro_steps=3)),
        ("COMM.NEEDLESS",),
    ),
    "uneven: accumulation, a late rank": Cause(
        (troubled(_ACCUMULATE, late_peer=2, late_peer_ns=15_000_000),), untroubled(late_peer=None), ("COMM.STRAGGLER",)
    ),
    "uneven: a checkpoint now and then": Cause(
        (_uneven(troubled(replace(CALM, steps=6), pause_ns=60_000_000), trouble_every=3),),
        untroubled(pause_ns=0),
        ("HOST.WORK",),
    ),
    "uneven: slow fetch now and then": Cause(
        (_uneven(replace(CALM, steps=10, stall_ns=40_000_000), stall_permille=300),),
        changed(stall_ns=0),
        ("DATA.LOADER",),
    ),
    "uneven: collector now and then": Cause(
        (_uneven(troubled(replace(AHEAD), collection_ns=90_000_000), trouble_every=2),),
        untroubled(collection_ns=0),
        ("PY.GC",),
    ),
    "uneven: collector not recorded": Cause(
        (_uneven(troubled(replace(CALM, steps=6, with_stack=False), collection_ns=60_000_000), trouble_every=3),),
        untroubled(collection_ns=0),
        ("HOST.PAUSE", "PY.GC"),
    ),
    "uneven: slow line, other lengths": Cause(
        (replace(_LENGTHS, slow_lines=(_LINE,)),), changed(slow_lines=()), ("HOST.WORK",)
    ),
    "uneven: busy CPU": Cause(
        (replace(HUNGRY, kernel_ns=60_000, host_op_ns=8_000, host_percent=800),),
        changed(host_percent=100),
        (*DISPATCH, "OP.SMALL"),
    ),
    "uneven: slow launching thread": Cause(
        (troubled(replace(HUNGRY, kernel_ns=60_000, host_op_ns=40_000), launch_ns=250_000),),
        untroubled(launch_ns=0),
        (*DISPATCH, "OP.SMALL"),
    ),
    "uneven: two ranks take turns": Cause(
        (troubled(replace(JOB, steps=6), late_peer=1, late_too=3, late_peer_ns=10_000_000, late_turns=True),),
        untroubled(late_peer=None),
        ("COMM.STRAGGLER",),
    ),
    "uneven: AI CPU in the backward pass": Cause(
        (troubled(CALM, ai_cpu_ns=12_000_000, ai_cpu_backward=True),), untroubled(ai_cpu_ns=10_000), ("KERNEL.BOUND",)
    ),
    "uneven: blocking copies": Cause(
        (troubled(replace(AHEAD, copy_ns=8_000_000), blocking_copies=True),),
        lambda job: untroubled(blocking_copies=False)(changed(copy_ns=20_000)(job)),
        ("SYNC.HOST", "DATA.COPY", "STEP.START"),
    ),
    "uneven: blocking copies at Level0": Cause(
        (troubled(replace(AHEAD, copy_ns=8_000_000, profiler_level=0), blocking_copies=True),),
        lambda job: untroubled(blocking_copies=False)(changed(copy_ns=20_000)(job)),
        ("SYNC.HOST", "DATA.COPY", "STEP.START"),
    ),
    "uneven: blocking copies, no call that waits": Cause(
        (troubled(replace(AHEAD, copy_ns=8_000_000, with_waits=False), blocking_copies=True),),
        lambda job: untroubled(blocking_copies=False)(changed(copy_ns=20_000)(job)),
        ("SYNC.HOST", "DATA.COPY", "STEP.START"),
    ),
    "uneven: a copy to the host": Cause(
        (troubled(CALM, read_back_ns=9_000_000),), untroubled(read_back_ns=0), ("SYNC.HOST", "DATA.COPY")
    ),
    "uneven: prefill and slow decode": Cause(
        (replace(_TOKENS, kernel_ns=150_000, host_op_ns=500_000),),
        changed(host_op_ns=2_000),
        (*DISPATCH, "OP.SMALL"),
    ),
    "uneven: slow fetch and a late rank": Cause(
        (troubled(replace(JOB, dataloader_ns=24_000_000), late_peer=2, late_peer_ns=16_000_000),),
        lambda job: untroubled(late_peer=None)(changed(dataloader_ns=FETCH_NS)(job)),
        ("DATA.LOADER", "COMM.STRAGGLER"),
        also=(("DATA.LOADER", "COMM.STRAGGLER"),),
    ),
    "uneven: slow line and AI CPU": Cause(
        (troubled(replace(CALM, slow_lines=(_LINE,)), ai_cpu_ns=16_000_000),),
        lambda job: untroubled(ai_cpu_ns=10_000)(changed(slow_lines=())(job)),
        ("HOST.WORK", "KERNEL.BOUND"),
        also=(("HOST.WORK", "KERNEL.BOUND"),),
    ),
    "uneven: collector and allocation": Cause(
        (troubled(HUNGRY, collection_ns=40_000_000, allocation_ns=700_000),),
        untroubled(collection_ns=0, allocation_ns=0),
        ("MEM.ALLOC",),
        also=(("PY.GC",),),
        others=(*DISPATCH, "OP.SMALL", "STEP.START", "OPT.FUSED"),
    ),
    "uneven: a hot expert": Cause(
        (troubled(EXPERTS, hot_expert=2, hot_percent=2_500),), untroubled(hot_expert=None), ("COMM.STRAGGLER",)
    ),
    "uneven: a late first pass": Cause(
        (replace(_STAGE, stage_ns=7_000_000, fill_ns=40_000_000),),
        changed(fill_ns=0),
        ("COMM.STRAGGLER",),
        # Passes that differ by a quarter leave a little of it.
        others=("COMM.STRAGGLER", "COMM.LONGOP"),
    ),
    "uneven: a slow stage before": Cause((_STAGE,), changed(stage_ns=6_000_000), ("COMM.STRAGGLER", "COMM.EXPOSED")),
    "uneven: a pause in every layer": Cause(
        (replace(CALM, layers=5, slow_lines=(_LINE,)),), changed(slow_lines=()), ("HOST.WORK",)
    ),
    "uneven: a checkpoint, an older chip": Cause(
        (troubled(replace(CALM, dialect=OLDER_CHIP), pause_ns=40_000_000),), untroubled(pause_ns=0), ("HOST.WORK",)
    ),
    "uneven: masks, far ahead": Cause(
        (troubled(replace(AHEAD, kernel_ns=300_000), setup_ns=40_000_000),), untroubled(setup_ns=0), ("HOST.WORK",)
    ),
    "uneven: AI CPU, other clocks": Cause(
        (troubled(replace(AHEAD, clock_offset_ns=90_000, item_sync=True, layers=4), ai_cpu_ns=20_000_000),),
        untroubled(ai_cpu_ns=10_000),
        ("KERNEL.BOUND",),
    ),
    "uneven: a checkpoint, clocks far apart": Cause(
        (_uneven(troubled(_APART, pause_ns=120_000_000), trouble_every=4),),
        untroubled(pause_ns=0),
        ("HOST.WORK",),
    ),
    "uneven: slow fetch, clocks far apart": Cause(
        (replace(_APART, dataloader_ns=30_000_000),), changed(dataloader_ns=FETCH_NS), ("DATA.LOADER",)
    ),
    "uneven: a copy to the host, other clocks": Cause(
        (troubled(replace(AHEAD, clock_offset_ns=90_000, layers=4), read_back_ns=20_000_000),),
        untroubled(read_back_ns=0),
        ("SYNC.HOST", "DATA.COPY"),
    ),
    "uneven: eight take turns by little": Cause(
        (
            troubled(
                replace(JOB, steps=6, world_size=8, layers=3), late_peer=7, late_peer_ns=3_000_000, late_changes=True
            ),
        ),
        untroubled(late_peer=None),
        ("COMM.STRAGGLER",),
    ),
    "uneven: compiling now and then": Cause(
        (replace(CALM, compile_permille=300, compile_ns=11_000_000, kernel_ns=300_000, layers=3),),
        changed(compile_permille=0),
        ("OP.COMPILE",),
    ),
    "uneven: a fetch far longer than the step": Cause(
        (replace(CALM, dataloader_ns=150_000_000),), changed(dataloader_ns=FETCH_NS), ("DATA.LOADER",)
    ),
    "uneven: a rank far later": Cause(
        ranks_of(replace(JOB, kernel_ns=200_000, steps=3, with_stack=False), r2=90_000_000),
        in_time(2),
        ("COMM.STRAGGLER",),
    ),
    "uneven: one longer step": Cause(
        (replace(CALM, steps=6, uneven=Uneven(lengths=(*(100,) * 3, 240, 100, 100))),),
        changed(uneven=Uneven()),
        ("STEP.ODD",),
    ),
    "uneven: two longer steps, four devices, no stacks": Cause(
        (replace(JOB, steps=9, with_stack=False, uneven=Uneven(lengths=(*(100,) * 5, 190, 180, 100, 100))),),
        changed(uneven=Uneven()),
        ("STEP.ODD",),
    ),
    "uneven: one evaluation": Cause(
        (replace(CALM, steps=5, uneven=Uneven(evaluated=(2,))),), changed(uneven=Uneven()), ("STEP.ODD",)
    ),
    "uneven: one evaluation at the end, no stacks": Cause(
        (replace(CALM, steps=7, layers=4, item_sync=True, with_stack=False, uneven=Uneven(evaluated=(6,))),),
        changed(uneven=Uneven()),
        ("STEP.ODD",),
    ),
    "uneven: the last step is longer, Level0": Cause(
        (replace(CALM, steps=6, profiler_level=0, with_waits=False, uneven=Uneven(lengths=(*(100,) * 5, 220))),),
        changed(uneven=Uneven()),
        ("STEP.ODD",),
    ),
    "nothing: an evaluation every other step": Cause(
        (replace(CALM, steps=8, uneven=Uneven(evaluated=(1, 3, 5, 7))),), same, ()
    ),
    "nothing: accumulation": Cause((_ACCUMULATE,), same, ()),
    "nothing: other lengths": Cause((_LENGTHS,), same, ()),
    "nothing: longest first": Cause((_uneven(_LENGTHS, lengths=(260, 100, 90, 110, 70)),), same, ()),
    "nothing: compiled in two steps": Cause(
        (_uneven(replace(CALM, steps=7, compile_ns=5_000_000), compiled_steps=2),), same, ()
    ),
    "nothing: conversions": Cause((replace(CALM, casts=2),), same, (), others=("OP.AFFINITY_KERNEL",)),
    "nothing: a side stream": Cause((replace(CALM, side_percent=150),), same, ()),
    "nothing: a long side stream": Cause((replace(CALM, side_percent=900, layers=4),), same, ()),
    "nothing: prefill and decode": Cause((_TOKENS,), same, ()),
    "nothing: experts": Cause((EXPERTS,), same, ()),
    "nothing: pipeline": Cause((replace(_STAGE, stage_ns=6_000_000),), same, ()),
    "nothing: pauses of the device": Cause(
        (replace(CALM, fixed_gap_ns=93_000),), same, (), others=("PROFILER.OVERHEAD",)
    ),
    "nothing: busy CPU": Cause((replace(CALM, host_percent=200),), same, ()),
}
