"""The table of fusion: which fused operators ran, and which runs one of them could replace."""

from __future__ import annotations

import re
from collections.abc import Iterator

from npu_tui.analysis.operators import kernel_groups
from npu_tui.profile.profile import Profile
from npu_tui.profile.table import COLUMNS, TableSheet, columns, from_tuples, table
from npu_tui.rules.affinity import api_savings, kernel_savings

FUSED = re.compile(
    r"FlashAttention|FusedInferAttention|RotaryMul|RotaryPosition|ApplyRotary|RmsNorm|AddLayerNorm|SwiGlu|GeGlu|"
    r"ScaledMasked|MatmulAllReduce|AllGatherMatmul|MatmulReduceScatter|AlltoAll.*MatMul|GroupedMatmul|^FFN|"
    r"MoeDistribute|MoeGating|ApplyFused|FusedAdam|MlaProlog|DequantSwiglu",
    re.IGNORECASE,
)
"""Types of kernels that do at once what several did, by the fused operators of CANN and torch_npu."""

_OWN = columns("label", "", "word", "fusion", "fusion") | columns("label", "", "name", "pattern use")


Row = tuple[str, str, int, int, str | None]
"""How it is, what runs, how often, its time on the device in ns, and what could replace it."""


def fusion(profile: Profile) -> TableSheet:
    """What is fused, then what is not and could be; most device time first."""
    rows = [] if profile.kind == "kineto" else [*_fused(profile), *_not_fused(profile)]
    return from_tuples(rows, "fusion pattern calls total use", COLUMNS | _OWN)


def _fused(profile: Profile) -> Iterator[Row]:
    for group in kernel_groups(profile.kernel_table, "type"):
        if FUSED.search(group.type):
            yield "fused", group.type, group.count, group.total, None


def _not_fused(profile: Profile) -> list[Row]:
    rows: dict[tuple[str, str], tuple[int, int]] = {}
    for facts in profile.facts:
        for saved in (kernel_savings(facts), api_savings(facts)):
            for use, saving in saved.items():
                count, time = rows.get((saving.places[0][2], use), (0, 0))
                rows[saving.places[0][2], use] = count + saving.count, time + saving.time
    listed: list[Row] = [("not_fused", words, *sums, use) for (words, use), sums in rows.items()]
    return sorted(listed, key=lambda row: -row[3])


FUSION = table(
    "fusion",
    fusion,
    sql="rank fusion pattern calls total use",
    json="fusion pattern count=calls total use?",
    page="fusion pattern count=calls total use?",
    panel="fusion pattern count=calls total use",
    section="fusion",
    tab=True,
    row="FusionRow",
    about="""A fused operator that ran, or a run that one could replace (``use``), whose first place is ``pattern``.

    Runs of operations and runs of kernels are listed each; the same work may be in both.
    """,
    own=_OWN,
)
