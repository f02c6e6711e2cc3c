"""Whether first steps that take longer than the others are warm-up."""

from __future__ import annotations

import numpy as np

from npu_tui.analysis.limits import HALF
from npu_tui.rules.facts import Facts
from npu_tui.rules.host_work import is_program_work
from npu_tui.rules.left_out import first_owner


def works_at_first(facts: Facts) -> bool:
    """Whether work of the program, which it may do in any step, is why the first steps that are left out take longer.

    They are not the first of the job, in which everything is compiled, allocated and read for the first time.
    """
    if not facts.warm_up or (facts.warm_up[0].number or 0) < _EARLY:
        return False
    owner, usual = first_owner(facts), facts.step_ns * len(facts.warm_up)
    longer = int(facts.length(np.array([step.item for step in facts.warm_up], np.int64)).sum()) - usual
    return owner is not None and is_program_work(owner) and owner.on_path >= HALF * longer


_EARLY = 3
"""Steps in which a job may do for the first time what it does once: schedules of the profiler skip as many."""
