"""The texts of going from place to place."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "same.of": "{n} of {count} {name}: {length}, median {median}, longer than or as long as {percentile} % of them",
    "same.last": "no further {name}; there are {count}",
    "bubble.of": "bubble {n} of {count}: free for {length}",
    "bubble.none": "no Free lane in this trace",
    "bubble.last": "no further bubble",
    "bubble.first": "no bubble before this",
    "sibling.of": "{n} of {count} launched together: {name}",
    "sibling.none": "nothing else was launched together with this",
    "sibling.last": "no further one of the {count} that were launched together",
    "step.of": "{name}, {n} of {count}: {length}",
    "step.none": "no ProfilerStep in this trace",
    "step.last": "this is the last step",
    "step.first": "this is the first step",
    "align.one_rank": "there is only one rank to align",
}
