"""Weights in folders, under numbers that only grow. Engines and workers that are away meanwhile are waited for."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Any, Callable, List, Literal, Mapping, Type, TypeVar, Union

from ..aio.policy import version_after
from ..answers import PublishResult
from ..collective import RESTART
from ..connection import log
from ..faults import NotFound, PolicyUpdateFailed
from ..holding import is_refused
from ..requests import Adapter
from ..sync import Policy

Kind = Literal["checkpoint", "lora"]

T = TypeVar("T")

STAYS = (" lacks ", "too few places", "add_lora method failed", RESTART)
"""In what an update says where waiting mends nothing: how an engine was started, an adapter that it does not take, this process."""

KEPT = 2
"""Folders of weights that stay: a replica that was away loads the newest."""
POLL_S = 0.5

WAIT_S = 300.0
"""For engines and workers that are away, which may be starting again. Other ranks wait meanwhile, by default up to ten minutes."""
RETRY_S = 2.0


def next_version(policy: Policy) -> int:
    """``Policy.next_version``, which waits for a worker: a trainer's own counter begins anew when it is started again."""
    try:
        return version_after(answered(policy.status)["record"])
    except NotFound:
        return version_after(None)


def put_and_publish(
    policy: Policy, version: int, save: Callable[[Path], Any], *, folder: Path, options: Mapping[str, Any], kind: Kind = "checkpoint"
) -> PublishResult:
    """Weights that ``save`` puts into a folder of their own, which has its name once it is whole."""
    path, unfinished = folder / str(version), folder / f".{version}.{os.getpid()}"
    # Also what a killed trainer of this folder has left.
    for old in (path, *folder.glob(".[0-9]*.[0-9]*")):
        shutil.rmtree(old, ignore_errors=True)
    unfinished.mkdir(parents=True)
    save(unfinished)
    unfinished.rename(path)
    adapter: Adapter = {"kind": "lora", "path": str(path)}
    result = publish(policy, version, str(path) if kind == "checkpoint" else adapter, options=options)
    # Streams may go on under adapters that are older than the newest, and engines say which ones they need.
    gone = [int(one.name) for one in map(Path, result.get("may_delete", [])) if one.parent == folder]
    last = version - KEPT if kind == "checkpoint" else max(gone, default=-1)
    for older in folder.iterdir():
        if older.name.isdigit() and int(older.name) <= last:
            shutil.rmtree(older, ignore_errors=True)
    return result


def publish(policy: Policy, version: int, weights: Union[str, Adapter], *, options: Mapping[str, Any]) -> PublishResult:
    """As ``Policy.publish``, which is safe to repeat: a trainer does not die with its engines. Raises what it raises at last,
    and where another trainer holds the service, at once."""
    ask: Callable[[], PublishResult] = lambda: policy.publish(version, weights, **options)  # noqa: E731
    return in_time(ask, PolicyUpdateFailed, f"version {version} is not published yet")


def answered(ask: Callable[[], T]) -> T:
    """The answer of a query, which is tried until a worker gives it. Raises ``TimeoutError`` at last."""
    return in_time(ask, TimeoutError, "not answered yet")


def in_time(ask: Callable[[], T], away: Type[Exception], what: str) -> T:
    """Asked again while something is away. Why is said once, and again when it is something else."""
    until, said = time.monotonic() + WAIT_S, ""
    while True:
        try:
            return ask()
        except away as error:
            if time.monotonic() >= until or (isinstance(error, PolicyUpdateFailed) and (is_refused(error) or any(one in str(error) for one in STAYS))):
                raise
            if str(error) != said:
                said = str(error)
                log.warning("%s, tried again for %.0f s: %s", what, until - time.monotonic(), said)
            time.sleep(RETRY_S)


def lacks_adapters(error: PolicyUpdateFailed) -> bool:
    """Whether an engine was started without routes for them."""
    return " lacks " in str(error) and "lora_adapter" in str(error)


def published_of(
    policy: Policy, written: Path, *, mark: str, own: Path, step: int, options: Mapping[str, Any]
) -> int:
    """Waits for a folder that a trainer writes, which has the file ``mark`` once it is whole, moves it below ``own``, and
    publishes it. What was moved and perhaps not published is found in the place that it was moved to. Returns its number.
    """
    place = own / f"step_{step}"
    while not (written / mark).exists():
        moved = [int(one.name) for one in place.glob("[0-9]*")]
        if moved:
            publish(policy, max(moved), str(place / str(max(moved))), options=options)
            break
        time.sleep(POLL_S)
    else:
        moved = [next_version(policy)]
        put_and_publish(policy, moved[0], lambda path: written.rename(path), folder=place, options=options)
    for older in own.glob("step_*"):
        if int(older.name.partition("_")[2]) <= step - KEPT:
            shutil.rmtree(older, ignore_errors=True)
    return max(moved)
