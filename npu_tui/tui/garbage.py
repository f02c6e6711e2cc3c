"""When the garbage collector runs: while the keys rest, so that no frame waits for it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

_YOUNG = 100_000
"""So many objects more than before make it run in between all the same."""

_OLDER, _ALL = 16, 512
"""At every so many rests it looks through what has outlived one, and through everything."""

_rests = count(1)


def settle() -> None:
    """The columns stay: no later collection needs to walk them."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, 20, 100)
    gc.enable()


@contextmanager
def kept() -> Iterator[None]:
    """What is made within stays: nothing walks it, neither now nor later."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def collect_at_rest() -> None:
    """Collect what the last keys have left."""
    if not gc.isenabled():
        return
    rest = next(_rests)
    gc.collect(2 if rest % _ALL == 0 else 1 if rest % _OLDER == 0 else 0)
