"""What is wrong between the roles of a job: a rank that ends long after the others, a role that the others wait for.

A tail is the rank of a role that ends long after the median one. Each finding is priced by replaying the roles.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from statistics import mean

from npu_tui.analysis.limits import NOTABLE, PLACES
from npu_tui.jobs.finding import LEAST, Held, priced
from npu_tui.jobs.role_steps import generates
from npu_tui.jobs.roles import Roles, RoleSpan, Tail
from npu_tui.rules.model import Evidence, Finding
from npu_tui.trace.message import message

# A role holds up another one that waits for it so many times as long as it waits itself: else they take turns.
_TIMES = 2.0
_MOSTLY = 2 / 3  # share of the tails that one rank ends in so that it is named for all of them
_SAME_WORK = frozenset(
    ("actor_compute_log_prob", "compute_log_prob", "ref_compute_log_prob", "reference_compute_log_prob",
     "compute_ref_log_prob")
)  # fmt: skip
"""Roles that pass the same tokens forward once each."""
_SLOWER = 1.5  # times as long as another role takes for the same tokens


def role_findings(roles: Roles | None) -> list[Finding]:
    """The findings about roles, those about tails first; none where nothing tells of roles."""
    tails: dict[str, list[Tail]] = defaultdict(list)
    if roles is None:
        return []
    for tail in roles.tails:
        tails[tail.role].append(tail)
    found = {role: _tail(roles, role, own) for role, own in tails.items()}
    known = {role: tail for role, tail in found.items() if tail is not None}
    return [*known.values(), *_slow(roles, {role: tail.gain_ns or 0 for role, tail in known.items()})]


def shortened_tails(tails: Sequence[Tail]) -> dict[RoleSpan, float]:
    """By how many ns the last stints of ``tails`` are shorter if they end with the median one."""
    return {span: float(more) for tail in tails for span, more in zip(tail.last, tail.more, strict=True)}


def _tail(roles: Roles, role: str, tails: Sequence[Tail]) -> Finding | None:
    """The tail of ``role``: one rank's, that of one step, or one that another rank has each time."""
    gain, steps = roles.gain(shortened_tails(tails)), len({span.step for span in roles.by_role[role]})
    total = roles.length * len(roles.steps)
    waiting = [[idle for idle in tail.idle if 2 * idle >= tail.after] for tail in tails]
    idle = sum(map(sum, waiting))
    if max(gain, idle / max(len({span.card for span in roles.spans}), 1)) < LEAST * total:
        return None
    several = len({span.place for span in roles.by_role[role]}) > 1  # then a replica is one, whichever of its ranks
    (who, count), *_ = Counter(_unit(tail.last[0], several) for tail in tails).most_common(1)
    is_one = count >= _MOSTLY * len(tails)
    of = [tail for tail in tails if _unit(tail.last[0], several) == who] if is_one else tails
    longest = max(of, key=lambda tail: tail.after)
    args: dict[str, object] = {
        "role": who[0] if is_one else role,
        "rank": longest.last[0].rank,
        "after": round(mean(tail.after for tail in of)),
        "share": (idle / max(sum(map(len, waiting)), 1)) / roles.length,
        "count": max(map(len, waiting)),
        "tails": len(tails),
        "steps": steps,
        "step": longest.step,
        "idle": idle,
        "cost": gain / total,
    }
    form = "moving" if not is_one else "step" if len(tails) == 1 and steps > 1 else "rank"
    waits = "idle" if args["count"] else "busy"
    why = message("job.tail.generates" if generates(role) else "job.tail.works", **args)
    codes = f"job.tail.{form}.{waits}", "job.tail.detail" if gain >= LEAST * total else "job.tail.hidden"
    named = {span.rank for tail in of for span in tail.last if not is_one or _unit(span, several) == who}
    spans = [tail.last[0] for tail in sorted(of, key=lambda tail: -tail.after)]
    of_role = who[0] if is_one else role
    return priced(
        "ROLE.TAIL",
        codes,
        (*sorted(named),),
        gain,
        Held(total, max(len(roles.steps), 1), "step"),
        _span_places(spans),
        of_role,
        why=why,
        **args,
    )


def _span_places(spans: Sequence[RoleSpan]) -> tuple[Evidence, ...]:
    """The first of ``spans`` on the clocks of their ranks."""
    return tuple(Evidence(span.start + span.ahead, span.end + span.ahead, rank=span.rank) for span in spans[:PLACES])


def _unit(span: RoleSpan, several: bool) -> tuple[str, int]:
    """The rank, or the replica where there are several."""
    return (span.place, -1) if several else span.who


def _slow(roles: Roles, told: dict[str, int]) -> list[Finding]:
    """Roles that keep others on other cards waiting, beyond what a tail costs, which is ``told`` already, ns."""
    found, count = [], len(roles.steps)
    for role, own in roles.by_role.items():
        held = []
        for other in roles.by_role:
            if other != role and roles.are_apart(role, other):
                waits = roles.waits.get(other, {}).get(role, 0.0) - told.get(role, 0) / count
                back = roles.waits.get(role, {}).get(other, 0.0)
                if waits >= NOTABLE * roles.length and waits >= _TIMES * back:
                    held.append((waits - back, waits, other))
        if held:
            more, waits, other = max(held)
            gain = roles.gain(_faster(own, more))
            ranks = len({span.who for span in roles.by_role[other]})
            args: dict[str, object] = {
                "other": other,
                "waits": round(waits),
                "share": waits / roles.length,
                "ranks": ranks,
            }
            found.append(_slow_cause(roles, role, "apart", gain, args))
    times = {row.role: row.time for row in roles.sums if row.role in _SAME_WORK}
    if len(times) > 1:
        role, other = max(times, key=times.__getitem__), min(times, key=times.__getitem__)
        gain = roles.gain(_faster(roles.by_role[role], times[role] - times[other]))
        if times[role] >= _SLOWER * times[other] and gain >= NOTABLE / 3 * roles.length * count:
            args = {"other": other, "times": times[role] / times[other], "time": round(times[role])}
            args["less"] = round(times[other])
            found.append(_slow_cause(roles, role, "work", gain, args))
    return found


def _slow_cause(roles: Roles, role: str, form: str, gain: int, args: dict[str, object]) -> Finding:
    length = roles.length * len(roles.steps)
    spans = sorted(roles.by_role[role], key=lambda span: span.start - span.end)
    ranks = tuple(sorted({span.rank for span in spans}))
    codes, places = (f"job.role.{form}.title", f"job.role.{form}.detail"), _span_places(spans[:1])
    held = Held(length, max(len(roles.steps), 1), "step")
    return priced("ROLE.SLOW", codes, ranks, gain, held, places, role, **args | {"role": role, "cost": gain / length})


def _faster(spans: Sequence[RoleSpan], less: float) -> dict[RoleSpan, float]:
    """``spans`` shorter by one factor, so that the mean one takes ``less`` ns less."""
    share = less / mean(span.end - span.start for span in spans)
    return {span: share * (span.end - span.start) for span in spans}
