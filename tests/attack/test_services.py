"""Some damaged exports of a service; ``damaged_services.py`` makes more of them."""

from __future__ import annotations

from damaged_services import attack


def test_damaged_services_are_judged() -> None:
    assert attack(3, 3, ("kv", "transfer")) == []
