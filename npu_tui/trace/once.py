"""A value of an object that is computed once, when it is first asked for, whichever threads ask."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from threading import Lock, RLock
from typing import Any, Generic, Protocol, TypeVar, overload

T = TypeVar("T")
Of = TypeVar("Of", bound="_HasKnown")

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


class Known:
    """Values that are computed once, when first asked for, whichever threads ask; each has a lock of its own."""

    def __init__(self) -> None:
        self._values: dict[object, Any] = {}
        self._locks: dict[object, AbstractContextManager[bool]] = {}

    def value(self, key: object, compute: Callable[[], T]) -> T:
        """The value of ``key``, which ``compute`` makes."""
        with _making:
            lock = self._locks.setdefault(key, RLock())
        with lock:
            if key not in self._values:
                self._values[key] = compute()
            found: T = self._values[key]
            return found


class _HasKnown(Protocol):
    known: Known


def of_trace(compute: Callable[[Of], T]) -> Callable[[Of], T]:
    """A function of a trace alone that is computed once for each trace; what it returns is not to be changed."""

    @wraps(compute)
    def asked(trace: Of) -> T:
        return trace.known.value(compute, lambda: compute(trace))

    return asked
