"""The texts of going from place to place."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "same.of": "{n:count} of {count:count} {name}: {length} (median {median}, percentile {percentile})",
    "same.last": "no more {name}; there are {count:count}",
    "bubble.of": "bubble {n:count} of {count:count}: {length}",
    "bubble.none": "no bubble is known in this trace",
    "bubble.last": "no more bubbles",
    "bubble.first": "no bubble before this one",
    "sibling.of": "{n:count} of {count:count} launched together: {name}",
    "sibling.none": "nothing else was launched with it",
    "sibling.last": "no more of the {count:count} launched together",
    "step.of": "{name}, {n:count} of {count:count}: {length}",
    "step.none": "no ProfilerStep in this trace",
    "step.last": "this is the last step",
    "step.first": "this is the first step",
    "chain.left": "all rows again",
    "align.one_rank": "there is only one rank to align",
    "align.no_base": "select a slice and mark it with :base first",
    "align.no_slice": "select a slice of another rank first",
    "align.same_rank": "the base is in this rank: select a slice of another one",
    "align.base": "{name} of {rank} is the base; select a slice of another rank, {press[align_start]} aligns the starts, "
    "{press[align_end]} the ends",
    "align.start": "{rank} moved by {by}: the slice starts with the base in {base}; offset {offset}",
    "align.end": "{rank} moved by {by}: the slice ends with the base in {base}; offset {offset}",
    "rank.of": "{label}, {n:count} of {count:count}",
    "rank.first": "this is the first rank",
    "rank.last": "this is the last rank",
}
