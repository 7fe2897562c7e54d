"""Weights in folders, under numbers that only grow."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any, Callable, List, Mapping

from ..faults import NotFound
from ..results import PolicyRecord, PublishResult
from ..sync import Policy

KEPT = 2
"""Folders of weights that stay: a replica that was away loads the newest."""


def next_version(policy: Policy) -> int:
    """Above all that were ever published: a trainer's own counter begins anew when it is started again."""
    try:
        record = policy.status()["record"]
    except NotFound:
        record = None
    return 1 + (0 if record is None else max(_numbers(record), default=0))


def _numbers(record: PolicyRecord) -> List[int]:
    return [one for one in (record["version"], record["target"]) if one is not None]


def put_and_publish(
    policy: Policy, version: int, save: Callable[[Path], Any], *, folder: Path, options: Mapping[str, Any]
) -> PublishResult:
    """Weights that ``save`` puts into a folder of their own, which has its name once it is whole."""
    path, unfinished = folder / str(version), folder / f".{version}.{os.getpid()}"
    for old in (path, unfinished):
        shutil.rmtree(old, ignore_errors=True)
    unfinished.mkdir(parents=True)
    save(unfinished)
    unfinished.rename(path)
    result = policy.publish(version, str(path), **options)
    for older in folder.iterdir():
        if older.name.isdigit() and int(older.name) <= version - KEPT:
            shutil.rmtree(older, ignore_errors=True)
    return result
