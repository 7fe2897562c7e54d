"""Signs of life of who holds a service: signal ``holding``, each minute while this process and its event loop live."""

from __future__ import annotations

import asyncio
from typing import Any, Awaitable, Callable, Dict, MutableMapping, Tuple
from weakref import WeakKeyDictionary

from .connection import log
from .faults import PolicyUpdateFailed

EVERY_S = 60.0
"""A hold ends five minutes after the last one."""

_saying: MutableMapping[Any, Dict[Tuple[str, str], "asyncio.Task[None]"]] = WeakKeyDictionary()
"""By client of Temporal, then by policy and holder."""


def hold(client: Any, policy: str, name: str, say: Callable[[], Awaitable[None]]) -> None:
    """Says it from the running loop from now on; again, it changes nothing."""
    running = _saying.setdefault(client, {})
    task = running.get((policy, name))
    if task is None or task.done():
        running[policy, name] = asyncio.ensure_future(_each_minute(say))


def let_go(client: Any, policy: str, name: str) -> bool:
    """Says it no longer. Returns whether it was said."""
    task = _saying.get(client, {}).pop((policy, name), None)
    return task is not None and (task.done() or task.cancel())


def is_refused(error: PolicyUpdateFailed) -> bool:
    """Whether another holds the service, or the name: nothing changes that while its holder lives."""
    return str(error).startswith("holder: ")


async def _each_minute(say: Callable[[], Awaitable[None]]) -> None:
    while True:
        try:
            await say()
        except Exception as error:
            log.warning("holding: not said, tried again in %.0f s: %s", EVERY_S, error)
        await asyncio.sleep(EVERY_S)
