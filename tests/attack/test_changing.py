"""Some profiles that change while they are read; ``changing.py`` does more of it."""

from __future__ import annotations

import pytest
from changing import attack


@pytest.mark.parametrize("kind", ["text", "snapshot", "service"])
def test_what_changes_while_it_is_read_ends_nothing(kind: str) -> None:
    assert attack(kind, range(3), 5) == (6, [])
