"""The texts of a table of several profiles."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "sweep.more": "more profiles: all are compared with the first in one table of steps, latency and throughput",
    "sweep.label": "what the next PROFILE is called, in their order; a number such as bs=32 is its batch size. Gives the table for two profiles, too",
    "sweep.bad_label": "{count:label|labels} for {profiles} profiles",
    "sweep.title": "Steps, latency and throughput",
    "sweep.profile": "profile",
    "sweep.steps": "steps",
    "sweep.step": "step, median",
    "sweep.change": "from the first",
    "sweep.share": "share",
    "sweep.verdict": "verdict",
    "sweep.computing": "computing",
    "sweep.exposed": "exposed comm.",
    "sweep.idle": "idle",
    "sweep.outside": "before and after",
    "sweep.steps_per_s": "steps/s",
    "sweep.samples_per_s": "samples/s",
    "sweep.no_batch": "samples a second need a batch size per profile: --label bs=32 --label bs=64",
    "sweep.knee": "knee: {label} does {rate} samples/s, {share:share} of the most ({best}), with {step:time} a step",
    "sweep.keys": "{press[row_up]} {press[row_down]} choose, {press[open_profile]} opens it against the first, {press[leave_list]} ends",
    "sweep.ended": "that ended with code {code}",
    "sweep.reading": "reading {at} of {count:count}: {path}",
}
