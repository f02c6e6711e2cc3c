"""The table of modules: what each ``nn.Module`` launched, how long that took, and how much it computed."""

from __future__ import annotations

from msgspec.structs import replace

from npu_tui.analysis.modules import Module
from npu_tui.profile.borrowed_tables import borrowed_modules
from npu_tui.profile.columns import slowest
from npu_tui.profile.profile import Profile
from npu_tui.profile.table import Array, TableSheet, base_of, columns, listed, table

_OWN = {
    **columns("whole", "", "count", "operations kernels"),
    **columns("real", "", "flops", "flops"),
    **columns("real", "0..1", "share", "mfu"),
    **columns("flag", "", "word", "borrowed"),
}


def modules(profile: Profile) -> TableSheet:
    """The modules of the part as a tree, each before those in it; the last row, without a name, is in no module."""
    rows = [*profile.modules, *borrowed_modules(profile)]
    total = sum(row.total for row in rows if row.path is None or len(row.path) == 1)
    facts = profile.facts
    peak = facts[0].peak_tflops * 1e3 if facts else 0.0  # FLOP per ns

    def mfu(row: Module) -> float | None:
        if not (peak and row.half and row.total and row.flops > 0):
            return None  # the peaks of chips are those of 16 bits
        return row.flops / row.total / peak

    def calls(row: int) -> Array:
        return rows[row].items

    sheet = listed(
        rows,
        "calls operations kernels device_self total lost flops borrowed",
        _OWN,
        name=lambda row: row.path and row.path[-1],
        path=lambda row: row.path and "/".join(row.path),
        depth=lambda row: row.path and len(row.path) - 1,
        device_total=lambda row: None if row.path is None else row.device_total,
        backward=lambda row: None if row.path is None else row.backward,
        share=lambda row: row.total / total if total else None,
        mfu=mfu,
    )
    return replace(sheet, base=base_of(facts), **slowest(profile, calls))


MODULES = table(
    "modules",
    modules,
    sql="rank name path depth calls operations kernels device_self device_total backward total lost flops mfu borrowed",
    json="name? path? depth? count=calls? operations? kernels device_self forward=device_total? backward? total lost? "
    "flops? mfu? borrowed",
    page="module=name count=calls? kernels forward=device_total its_backward=backward total lost flops mfu?",
    panel="module=name total share forward=device_total its_backward=backward device_self lost flops mfu kernels "
    "operations count=calls",
    section="modules",
    row="ModuleRow",
    about="""What an ``nn.Module`` launched with those in it (``device_self``: without); ``name`` None: in no module.

    Collectives are left out. ``flops`` counts products, convolutions and no others, None where a kernel of matrices,
    such as attention, has unknown FLOP. ``mfu`` is over the time of its kernels, None without a peak of the chip. A
    ``borrowed`` row is of replayed kernels, whose module another profile tells (``--eager``): it has no calls.
    """,
    own=_OWN,
)
