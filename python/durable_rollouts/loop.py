"""An event loop in a thread of its own, for the synchronous form of ``durable_rollouts.aio``."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
from typing import Any, AsyncIterator, Coroutine, Iterator, Optional, TypeVar

T = TypeVar("T")

CANCEL_S = 1
"""How long an interrupted call waits until its work has ended, and prints nothing more."""


class _Loop:
    """One for all clients of a process. It also works beside a notebook's own loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._pid = -1

    def start(self, work: Coroutine[Any, Any, T]) -> "concurrent.futures.Future[T]":
        """Work that nobody waits for here."""
        return asyncio.run_coroutine_threadsafe(work, self.running())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        over = threading.Event()
        future = asyncio.run_coroutine_threadsafe(_until(over, work), self.running())
        try:
            return future.result()
        except BaseException:  # Ctrl-C ends the waiting; the work behind it must not continue unnoticed.
            future.cancel()
            over.wait(CANCEL_S)
            raise

    def running(self) -> asyncio.AbstractEventLoop:
        """Started by the first call."""
        with self._lock:
            if self._loop is not None and self._pid != os.getpid():
                raise RuntimeError("durable_rollouts does not survive a fork: connect only in the child, or start it with spawn")
            if self._loop is None:
                self._loop, self._pid = asyncio.new_event_loop(), os.getpid()
                threading.Thread(target=self._loop.run_forever, name="durable_rollouts", daemon=True).start()
            return self._loop


async def _until(over: threading.Event, work: Coroutine[Any, Any, T]) -> T:
    try:
        return await work
    finally:
        over.set()


loop = _Loop()
run = loop.run


def each(items: AsyncIterator[T]) -> Iterator[T]:
    """What comes, as it comes; the loop asks for one at a time."""

    async def following() -> Optional[T]:
        return await anext(items, None)

    while (item := run(following())) is not None:
        yield item
