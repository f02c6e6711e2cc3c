"""The command of an attack: numbered mutants of every kind, and what they led to."""

from __future__ import annotations

import argparse
import signal
from collections.abc import Callable, Iterable

Attack = Callable[[str, range, int], tuple[int, list[str]]]
"""Makes the mutants of a kind, of these numbers and with this seed: how often all went well, and what did not."""


def rounds(about: str, kinds: Iterable[str], attack: Attack, mutants: int) -> int:
    """Print a line for each of ``kinds``, and one for all that went wrong; 1 if anything did."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("kinds", nargs="*", default=[])
    parser.add_argument("--mutants", type=int, default=mutants)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()

    def late(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, late)
    wrong = 0
    for kind in options.kinds or kinds:
        withstood, failed = attack(kind, range(options.first, options.first + options.mutants), options.seed)
        wrong += len(failed)
        print(f"{kind}: {withstood} withstood, {len(failed)} did not", flush=True)
        print("".join(f"  {line}\n" for line in failed), end="", flush=True)
    return int(wrong > 0)
