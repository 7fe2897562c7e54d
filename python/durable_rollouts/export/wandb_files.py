"""What an earlier process has left of a W&B run that is not sent: with ``WANDB_MODE=offline`` nobody else knows its steps."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any, BinaryIO, Iterator

BLOCK = 32 * 2**10
HEAD, FIRST = 7, 7
"""Bytes in front of each piece of a record, and of the whole file."""
WHOLE, LAST = 1, 4


def last_in_files(run: Any, key: str) -> float:
    """The largest value of a metric in the files of this run's other processes; -1: none."""
    own = Path(run.dir).parent
    proto = importlib.import_module("wandb.proto.wandb_internal_pb2")
    largest = -1.0
    for file in own.parent.glob(f"*run-*-{run.id}/run-{run.id}.wandb"):
        if file.parent != own:
            with file.open("rb") as content:
                for record in records_of(content):
                    # Most have other metrics, and need no parsing.
                    if key.encode() in record:
                        largest = max(largest, _value_in(proto.Record.FromString(record), key))
    return largest


def _value_in(record: Any, key: str) -> float:
    found = [item.value_json for item in record.history.item if (item.key or "/".join(item.nested_key)) == key]
    return float(json.loads(found[-1])) if found else -1.0


def records_of(content: BinaryIO) -> Iterator[bytes]:
    """The whole records. The file has the format of LevelDB's logs: blocks of 32 KiB with pieces of records."""
    content.seek(FIRST)
    at, whole = FIRST, b""
    while True:
        left = BLOCK - at % BLOCK
        if left < HEAD:
            content.seek(left, 1)
            at += left
        head = content.read(HEAD)
        if len(head) < HEAD:
            return
        length, kind = int.from_bytes(head[4:6], "little"), head[6]
        piece = content.read(length)
        if len(piece) < length:
            return
        whole += piece
        at += HEAD + length
        if kind in (WHOLE, LAST):
            yield whole
            whole = b""
