"""A value of an object that is computed once, when it is first asked for, whichever threads ask."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from threading import Lock, RLock
from typing import Any, Generic, Protocol, TypeVar, overload


class _Keeping(Protocol):
    """What remembers what was computed of it."""

    kept: dict[object, object]


T = TypeVar("T")
Kept = TypeVar("Kept", bound=_Keeping)

_LOCKS = "_locks_of_values"
_making = Lock()


class once(Generic[T]):  # noqa: N801 - reads like cached_property where it is used
    """Like ``functools.cached_property``, but a thread that asks for a value another one computes waits for it.

    Every value of every object has a lock of its own, so that only who needs the value waits. What raises is computed
    again when it is asked for again.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> once[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> once[T] | T:
        if instance is None:
            return self
        values: dict[str, Any] = instance.__dict__
        with self._lock_of(values):
            if self._name not in values:
                values[self._name] = self._compute(instance)  # found there from now on, without a lock
            found: T = values[self._name]
            return found

    def _lock_of(self, values: dict[str, Any]) -> AbstractContextManager[bool]:
        with _making:
            locks: dict[str, AbstractContextManager[bool]] = values.setdefault(_LOCKS, {})
            return locks.setdefault(self._name, RLock())

    def is_known(self, instance: object) -> bool:
        """Whether the value of ``instance`` is there at once."""
        return self._name in instance.__dict__


def of_trace(compute: Callable[[Kept], T]) -> Callable[[Kept], T]:
    """A function of a trace alone that is computed once for each trace; what it returns is not to be changed."""

    @wraps(compute)
    def known(trace: Kept) -> T:
        with _making:
            lock = trace.kept.setdefault((compute, "lock"), RLock())
        with lock:  # type: ignore[attr-defined]
            if compute not in trace.kept:
                trace.kept[compute] = compute(trace)
            return trace.kept[compute]  # type: ignore[return-value]

    return known
