"""What counts as most, as little, as few and as short: numbers that mean the same wherever something is judged.

Thresholds of the rules are declared where they are used, and users may set them; ``Threshold`` is here.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from msgspec import Struct

HALF = 0.5
"""Most of something: what holds for more than this share is said of all of it, and no second one can have as much."""
NEARLY_ALL = 0.8
"""What has this share explains the whole; predicted and recorded parts agree within a fifth."""
MAINLY = 2 / 3
"""What has as much is twice all the others together, and is named for all of them."""
ALMOST_ALL = 0.9
"""Predicted gains hold within a tenth (simulated causes): what differs by less is as much."""
A_PART = 0.2
"""Less of something is left over or rare, and is named together with what holds the rest."""
NOTABLE = 0.1
"""A smaller part of something is not named beside the others."""
LITTLE = 0.05
"""A smaller part changes nothing that is said."""
EVEN = 0.02
"""What differs by a smaller share is equal: clocks, rounding and noise of equal work move times by as much."""
HARDLY_ANY = 0.01
"""A smaller share of a step or of a loss is not worth a word."""
UNSEEN = 0.001
"""A smaller share of the run is not worth computing what it would gain, or a digit."""

MORE_THAN_ONE = 2
"""One of something is no repetition."""
SOME = 3
"""Fewer are chance: launches of a range, views of a clock, ranks that take turns."""
FEWEST_EQUALS = 4
"""Three that agree say what is usual, and a fourth may differ."""
ENOUGH = 5
"""With fewer the best or the usual one is that of a single one."""
FEWEST_OF_P99 = 100
"""With fewer values a p99 lies between the two largest ones."""
FAR_LONGER = 5
"""So many times as long as usual is no chance."""
ANOTHER_KIND = 10
"""So many times as long as usual is no longer one of the same kind: a pause and no gap, a cause and no latency."""
BEST_PERCENTILE = 90.0
"""The percentile of speeds that counts as what the hardware reaches: it is rarely faster, often slower."""
NAMED = 3
"""Names in a sentence that has other figures too; the places and the tables have the others."""
PLACES = 5
"""Places of one of several parts that prove a finding, and owners of one kind that have a finding each."""

SIGMAS = 3.0
"""Standard deviations beyond which chance leads once in 700 times."""
OUTLYING = 5.0
"""Robust standard deviations from the median of what is no sample of the others."""

ROUNDING_NS = 2
"""How far rounding moves edges of slices against each other."""
GRID_NS = 1_000
"""Times that are nearer to each other are of one moment: tools write them as doubles in steps of 250 ns, or in us."""
NEXT_TASK_NS = 10_000
"""A task that starts so soon after another one ended had waited for that alone, and for no launch."""
AWAKE_NS = 50_000
"""What begins so soon after something ended had waited for it: threads wake within this time."""
SHORT_NS = 100_000
"""A shorter pause, wait or way is how launching and waking up look in real profiles."""
COPY_NS = 200_000
"""A shorter copy or wait for one holds nothing up; no launch without a wait is longer on its way."""
LONG_NS = 1_000_000
"""A longer wait is not how a device, a stream or a server works; clocks of hosts agree within it."""


Number = TypeVar("Number", int, float)


class Threshold(Struct, Generic[Number], frozen=True):
    """A number that rules compare with, and its default.

    Shares are 0..1; times and sizes are in the unit at the end of the name. An int as ``default`` means that the
    setting must be an int too. The text ``threshold.<name>`` of ``npu_tui.strings`` says what it gates and where the
    default comes from.
    """

    name: str
    default: Number


AnyThreshold = Threshold[Any]


class Thresholds:
    """The value of every threshold: its default unless the user has ``changed`` it, by name.

    ``limits[FREE_SHARE]`` is 0.1, or the value in the table ``[thresholds]`` of the settings, whose names are checked
    when the settings are read.
    """

    def __init__(self, **changed: float) -> None:
        self._changed = changed

    def __getitem__(self, threshold: Threshold[Number]) -> Number:
        value: Any = self._changed.get(threshold.name, threshold.default)
        return value  # type: ignore[no-any-return]
