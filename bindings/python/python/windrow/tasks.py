"""Calls of tasks: a task that is cancelled stops its call."""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from windrow._windrow import Stop

__all__ = ["at_once", "on_thread"]

Result = TypeVar("Result")

_threads: ThreadPoolExecutor | None = None


def _own_threads() -> ThreadPoolExecutor:
    """The threads of this package. Those of asyncio look up names of hosts, which must not wait for batches."""
    global _threads
    if _threads is None:
        _threads = ThreadPoolExecutor(thread_name_prefix="windrow-task")
    return _threads


def _after_fork() -> None:
    # The threads are those of the parent.
    global _threads
    _threads = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


async def on_thread(call: Callable[..., Result], *arguments: object, **settings: object) -> Result:
    """Calls a function on another thread. When the task is cancelled, the function's work in windrow ends within one item."""
    stop = Stop()
    try:
        work = functools.partial(call, *arguments, **settings)
        return await asyncio.get_running_loop().run_in_executor(_own_threads(), stop.run, work)
    finally:
        stop.set()


async def at_once(call: Callable[..., Result], *arguments: object, **settings: object) -> Result:
    """Calls a function that takes less time than a thread."""
    return call(*arguments, **settings)
