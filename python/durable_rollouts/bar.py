"""A progress bar if ``tqdm`` is installed, else plain lines. Both go to standard error."""

from __future__ import annotations

import asyncio
import importlib
import sys
from contextlib import asynccontextmanager
from typing import Any, AsyncIterator, Awaitable, Callable, Union

from .results import BatchProgress

Look = Callable[[], Awaitable[BatchProgress]]


@asynccontextmanager
async def shown(look: Look, title: str) -> AsyncIterator[None]:
    """Shows a batch while the block runs, and its last state."""
    display = _display(title)
    following = asyncio.create_task(_follow(look, display))
    waited = True
    try:
        yield
    except asyncio.CancelledError:  # Ctrl-C: the process may end at once, so this asks for nothing more.
        waited = False
        raise
    finally:
        following.cancel()
        if waited:
            await _draw(look, display)
        display.close()


class _Bar:
    every_s = 1.0

    def __init__(self, bar: Any) -> None:
        self._bar = bar

    def draw(self, progress: BatchProgress) -> None:
        self._bar.total = progress["requested"] or None
        self._bar.n = progress["done"]
        self._bar.set_postfix_str(f"{_state(progress)}, {progress['failed']} failed", refresh=False)
        self._bar.refresh()

    def close(self) -> None:
        self._bar.close()


class _Lines:
    every_s = 10.0

    def __init__(self, title: str) -> None:
        self._title = title
        self._last = ""

    def draw(self, progress: BatchProgress) -> None:
        line = f"{self._title}: {_counts(progress)}"
        # One that does not change yet is a sign of life, until the batch is done.
        if line != self._last or progress["phase"] != "done":
            print(line, file=sys.stderr, flush=True)
        self._last = line

    def close(self) -> None:
        """Every line is complete."""


def _display(title: str) -> Union[_Bar, _Lines]:
    try:
        tqdm = importlib.import_module("tqdm.auto").tqdm
    except ImportError:
        return _Lines(title)
    return _Bar(tqdm(desc=title, unit="rollout"))


async def _follow(look: Look, display: Union[_Bar, _Lines]) -> None:
    while True:
        await _draw(look, display)
        await asyncio.sleep(display.every_s)


async def _draw(look: Look, display: Union[_Bar, _Lines]) -> None:
    try:
        progress = await look()
    except Exception:  # No worker or no server: what is shown stays as it is.
        return
    display.draw(progress)


def _counts(progress: BatchProgress) -> str:
    if not progress["requested"]:
        return _state(progress)
    counts = f"{progress['done']} of {progress['requested']} done, {progress['failed']} failed"
    mean = f", mean reward {progress['reward_sum'] / progress['valid']:.3g}" if progress["valid"] else ""
    return f"{counts}{mean}{f', {_state(progress)}' if progress['waiting'] else ''}"


def _state(progress: BatchProgress) -> str:
    waits = progress["waiting"]
    return progress["phase"] if waits is None else f"waits for {waits['service']}"
