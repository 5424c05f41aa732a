"""`torch.futures`: a value that will be there, set by whoever computes it."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar  # a value of any kind

T = TypeVar("T")
S = TypeVar("S")


class Future(Generic[T]):
    """A result that another thread, or a later line, hands over.

    devices: accepted; there is one device, and results are whole when they are set.

    >>> import rushlight as torch
    >>> future = torch.futures.Future()
    >>> doubled = future.then(lambda done: done.value() * 2)
    >>> future.set_result(torch.ones(2))
    >>> doubled.wait()
    tensor([2., 2.])
    """

    def __init__(self, *, devices: Sequence[Any] | None = None) -> None:
        self._held: concurrent.futures.Future[T] = concurrent.futures.Future()

    def done(self) -> bool:
        """Whether a result or an exception was set."""
        return self._held.done()

    def wait(self) -> T:
        """The result, once it is there; the exception that was set is raised."""
        return self._held.result()

    def value(self) -> T:
        """The result, which must be there: RuntimeError otherwise."""
        if not self.done():
            raise RuntimeError("Future.value: it has no result yet; wait() waits for it")
        return self._held.result()

    def set_result(self, result: T) -> None:
        """Hand over the result, once. RuntimeError if there is one already."""
        try:
            self._held.set_result(result)
        except concurrent.futures.InvalidStateError:
            raise RuntimeError("Future: it already has a result") from None

    def set_exception(self, result: BaseException) -> None:
        """Make `wait` and `value` raise this."""
        if not isinstance(result, Exception):
            raise TypeError(
                f"Future.set_exception: {result!r} is of type {type(result).__name__}, "
                "not an Exception."
            )
        try:
            self._held.set_exception(result)
        except concurrent.futures.InvalidStateError:
            raise RuntimeError("Future: it already has a result") from None

    def then(self, callback: Callable[[Future[T]], S]) -> Future[S]:
        """The future of what `callback` makes of this one, once it is done."""
        following: Future[S] = Future()

        def go_on(_: object) -> None:
            try:
                made = callback(self)
            except Exception as error:  # whoever waits for the result is told
                following.set_exception(error)
            else:
                following.set_result(made)

        self._held.add_done_callback(go_on)
        return following

    def add_done_callback(self, callback: Callable[[Future[T]], None]) -> None:
        """Call `callback(self)` once this is done, at once if it is."""
        self._held.add_done_callback(lambda _: callback(self))


def collect_all(futures: Iterable[Future[Any]]) -> Future[list[Future[Any]]]:
    """A future of the list of these futures, done when all of them are."""
    waited = list(futures)
    together: Future[list[Future[Any]]] = Future()
    left = len(waited)
    if not waited:
        together.set_result(waited)

    def count(_: object) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            together.set_result(waited)

    for future in waited:
        future.add_done_callback(count)
    return together


def wait_all(futures: Iterable[Future[Any]]) -> list[Any]:
    """The results of all, once they are there; the first exception is raised."""
    return [future.wait() for future in collect_all(futures).wait()]
