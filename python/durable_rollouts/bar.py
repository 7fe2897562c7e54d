"""A progress bar if ``tqdm`` is installed; without it nothing is shown."""

from __future__ import annotations

import asyncio
import importlib
from contextlib import asynccontextmanager
from typing import Any, AsyncIterator, Awaitable, Callable, Optional

from .results import BatchProgress

EVERY_S = 1.0


@asynccontextmanager
async def shown(look: Callable[[], Awaitable[BatchProgress]], title: str) -> AsyncIterator[None]:
    """Shows a batch while the block runs, and its last state."""
    bar = _open_bar(title)
    if bar is None:
        yield
        return
    following = asyncio.create_task(_follow(look, bar))
    try:
        yield
    finally:
        following.cancel()
        await _draw(look, bar)
        bar.close()


def _open_bar(title: str) -> Optional[Any]:
    try:
        tqdm = importlib.import_module("tqdm.auto").tqdm
    except ImportError:
        return None
    return tqdm(desc=title, unit="rollout")


async def _follow(look: Callable[[], Awaitable[BatchProgress]], bar: Any) -> None:
    while True:
        await _draw(look, bar)
        await asyncio.sleep(EVERY_S)


async def _draw(look: Callable[[], Awaitable[BatchProgress]], bar: Any) -> None:
    try:
        progress = await look()
    except Exception:  # No worker or no server: the bar stays as it is.
        return
    bar.total = progress["requested"] or None
    bar.n = progress["done"]
    waits = progress["waiting"]
    state = progress["phase"] if waits is None else f"waits for {waits['service']}"
    bar.set_postfix_str(f"{state}, {progress['failed']} failed", refresh=False)
    bar.refresh()
