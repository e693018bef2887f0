"""Calls of many threads and tasks, run as one call."""

from __future__ import annotations

import atexit
import contextlib
import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from windrow import _windrow

if TYPE_CHECKING:
    import asyncio
    from types import TracebackType

__all__ = ["Batcher"]

Item = TypeVar("Item")
Result = TypeVar("Result")

_open: weakref.WeakSet[_windrow.Batcher] = weakref.WeakSet()


class Batcher(_windrow.Batcher, Generic[Item, Result]):
    """Runs ``function`` on lists of items that many threads and tasks hand in one by one.

    The next batch consists of the items that arrived while the last one ran. An idle function runs at once; no timer delays an item. The
    function runs on one thread, and returns as many results as it got items. A result that is an exception is raised for its item. An
    exception that the function itself raises is raised for all items of the batch, since results count only after all are returned.

    ``limit`` bounds the items of a batch, ``queue`` the items that have been handed in and have no result yet. Further calls wait for room.

    >>> lengths = Batcher(lambda texts: [len(text) for text in texts])
    >>> lengths.call("four")
    4
    """

    def __init__(
        self,
        function: Callable[[list[Item]], Iterable[Result | BaseException]],
        *,
        limit: int | None = None,
        queue: int | None = None,
    ) -> None:
        _open.add(self)

    def call(self, item: Item) -> Result:
        """The result for an item. Blocks this thread until its batch has run."""
        result: Result = super().call(item)
        return result

    def submit(self, item: Item) -> asyncio.Future[Result]:
        """A future of the running event loop for an item's result. Cancelling it withdraws the item if its batch has not begun."""
        return super().submit(item)

    def stats(self) -> dict[str, Any]:
        """What has happened so far: ``items``, ``batches``, their ``sizes``, waits in seconds, and a ``verdict`` on whether batches pay off."""
        return super().stats()

    def close(self) -> None:
        """Accepts no more items, and returns when all items that were handed in before have results."""
        super().close()

    def __enter__(self) -> Batcher[Item, Result]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@atexit.register
def _close_all() -> None:
    """A function must not run in an interpreter that ends."""
    for batcher in list(_open):
        # In a forked process it belongs to the parent.
        with contextlib.suppress(RuntimeError):
            batcher.close()
