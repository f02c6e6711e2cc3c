"""Values that are computed once, at their first use, and safely so from several threads.

``once`` is for a property of a class, ``of_trace`` for a function of a trace, ``ValueCache`` for any other key.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from functools import wraps
from threading import Event, Lock, RLock
from typing import Any, Generic, Protocol, TypeVar, overload

T = TypeVar("T")
Of = TypeVar("Of", bound="_HasCache")

_LOCKS = "_locks_of_values"
_making = Lock()
"""Guards the tables of locks; a value itself is computed under its own lock."""

given_up: ContextVar[Event] = ContextVar("given_up", default=Event())  # noqa: B039 - the default is never set
"""Set once nothing waits any more for what is computed in this context."""


class Cancelled(Exception):  # noqa: N818 - not an error
    """The value is no longer needed: its computation ends here."""


def go_on() -> None:
    """Raise ``Cancelled`` if the value that is computed is no longer needed."""
    if given_up.get().is_set():
        raise Cancelled


class once(Generic[T]):  # noqa: N801 - reads like cached_property where it is used
    """Like ``functools.cached_property``, but a thread waits while another one computes the value it needs.

    Every value of every object has its own lock, so that a thread waits only for what it uses. A value whose
    computation raised is computed again at the next use.
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
        with _making:
            lock: AbstractContextManager[bool] = values.setdefault(_LOCKS, {}).setdefault(self._name, RLock())
        with lock:
            if self._name not in values:
                go_on()
                values[self._name] = self._compute(instance)  # cached like a plain attribute
            value: T = values[self._name]
            return value

    def is_known(self, instance: object) -> bool:
        """Whether ``instance`` already has the value."""
        return self._name in instance.__dict__


class ValueCache:
    """A cache of values by key; each value has its own lock and is computed once."""

    def __init__(self) -> None:
        self._values: dict[object, Any] = {}
        self._locks: dict[object, AbstractContextManager[bool]] = {}

    def value(self, key: object, compute: Callable[[], T]) -> T:
        """The value of ``key``, from ``compute`` at the first use."""
        with _making:
            lock = self._locks.setdefault(key, RLock())
        with lock:
            if key not in self._values:
                go_on()
                self._values[key] = compute()
            value_of_key: T = self._values[key]
            return value_of_key


class _HasCache(Protocol):
    known: ValueCache


def of_trace(compute: Callable[[Of], T]) -> Callable[[Of], T]:
    """Decorates a function whose only input is a trace: it runs once per trace. Callers must not change the result."""

    @wraps(compute)
    def once_per_trace(trace: Of) -> T:
        return trace.known.value(compute, lambda: compute(trace))

    return once_per_trace
