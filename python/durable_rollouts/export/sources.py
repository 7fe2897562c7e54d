"""Where rows come from: a batch, a step of a stream, a file, or rows themselves."""

from __future__ import annotations

import os
from itertools import count
from typing import Any, Iterable, Iterator, Mapping, Optional, Union, cast

from ..answers import BatchResult, StepResult
from ..offline import StoredBatch
from ..results import Row, Step, counted, read_rows
from ..sync import Batch

Source = Union[Batch, StoredBatch, Step, BatchResult, StepResult, str, "os.PathLike[str]", Iterable[Row]]


def result_of(source: Source) -> Optional[BatchResult]:
    """The result of a batch or step. None: the source is rows, or a file of them."""
    if isinstance(source, Batch):
        return source.wait()
    if isinstance(source, Step):
        return source.result
    if isinstance(source, StoredBatch):
        return source._result()
    return cast(BatchResult, source) if isinstance(source, Mapping) and "files" in source else None


def rows_of(source: Source, *, failures: bool = False) -> Iterator[Row]:
    """Its rows, one by one. Raises ``StoreFault`` for a part of them, and ``ValueError`` for what is no row."""
    result = result_of(source)
    if result is not None:
        yield from counted(result, "rollouts")
        if failures:
            yield from counted(result, "failures")
    elif isinstance(source, (str, os.PathLike)):
        yield from _checked(read_rows(os.fspath(source)), os.fspath(source))
    elif isinstance(source, Iterable) and not isinstance(source, Mapping):
        yield from _checked(iter(source), "rows")
    else:
        raise TypeError(
            "expected a batch, a step, their result, a path of rollouts.jsonl, or rows, "
            f"got {source!r:.80} (of durable_rollouts.aio, give await batch.wait())"
        )


def _checked(rows: Iterator[Any], name: str) -> Iterator[Row]:
    for at in count(1):
        try:
            row = next(rows)
        except StopIteration:
            return
        except ValueError as error:
            raise ValueError(f"{name}, line {at}: expected JSON, got something else: {error}") from None
        if not isinstance(row, Mapping) or "rollout_id" not in row:
            raise ValueError(f"{name}, line {at}: expected a rollout with its rollout_id, got {row!r:.80}")
        yield cast(Row, row)
