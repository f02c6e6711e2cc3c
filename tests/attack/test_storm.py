"""A few short storms; ``storm.py`` runs as many as one likes. What failed once stands in ``storms``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from storm import Traces, read_storm, run, smaller, storm  # noqa: E402

KNOWN = sorted((HERE / "storms").glob("*.json"))


@pytest.fixture(scope="module")
def traces() -> Iterator[Traces]:
    made = Traces(["dispatch_bound", "broken", "two_ranks", "snapshot leak | snapshot peak"])
    yield made
    made.close()


@pytest.mark.parametrize("seed", range(9001, 9003))
def test_a_storm_is_withstood(seed: int, traces: Traces) -> None:
    made = storm(seed, 60, traces.names)
    outcome = run(made, traces)
    assert not outcome.fault, (outcome.fault, smaller(made, traces, 10).events, outcome.output[-2000:])


def test_what_failed_once_is_withstood() -> None:
    for path in KNOWN:
        made = read_storm(path)
        outcome = run(made, Traces([made.trace]))
        assert not outcome.fault, (path, outcome.fault, outcome.output[-2000:])


def test_the_same_seed_is_the_same_storm(traces: Traces) -> None:
    assert storm(5, 40, traces.names) == storm(5, 40, traces.names)
    assert storm(5, 40, traces.names) != storm(6, 40, traces.names)
