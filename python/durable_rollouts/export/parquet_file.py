"""Rollouts in Parquet, as ``datasets`` reads it."""

from __future__ import annotations

import importlib
import os
from itertools import islice
from pathlib import Path
from typing import Any, Dict, Iterator, List, Tuple, Union

from ..results import Row
from .columns import record_of, schema_of
from .sources import Source, rows_of

ROWS_AT_ONCE = 16
GROUP_BYTES = 32 * 2**20
"""Of a row group, in memory: what a reader has to hold at once, far below the two gigabytes of Arrow's lists and texts."""


def parquet(source: Source, file: Union[str, "os.PathLike[str]"], *, failures: bool = False) -> int:
    """Writes a table with a row for each rollout, in bounded memory. Its columns are those of ``RowColumns`` and ``rest``,
    always with the same types: docs/arrow.md.

    source: a batch, which is waited for, a stored one, or a step of a stream; its result; a path of ``rollouts.jsonl``; or rows
    file: where; it has all of them, or is not written
    failures: also the rows of ``failures.jsonl``, of a batch or a step; ``failure`` tells them apart

    Returns how many. Raises what ``Batch.wait`` raises, ``StoreFault`` for a part of the rows, ``ValueError`` for others than
    rows, naming the rollout, ``ImportError`` without pyarrow, and ``OSError`` without the disk.

        export.parquet(batch, "step-17.parquet")
        dataset = load_dataset("parquet", data_files="step-17.parquet", split="train")
    """
    pa, pq = _pyarrow()
    schema, path, written = schema_of(pa), Path(file), 0
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with pq.ParquetWriter(part, schema, compression="zstd") as writer:
            for table in _tables(rows_of(source, failures=failures), pa, schema):
                writer.write_table(table, row_group_size=max(1, table.num_rows))
                written += table.num_rows
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
    return written


def _tables(rows: Iterator[Row], pa: Any, schema: Any) -> Iterator[Any]:
    held: List[Any] = []
    size = 0
    while some := [record_of(row) for row in islice(rows, ROWS_AT_ONCE)]:
        held.append(_batch_of(some, pa, schema))
        size += held[-1].nbytes
        if size >= GROUP_BYTES:
            yield pa.Table.from_batches(held)
            held, size = [], 0
    if held:
        yield pa.Table.from_batches(held)


def _batch_of(records: List[Dict[str, Any]], pa: Any, schema: Any) -> Any:
    try:
        return pa.RecordBatch.from_pylist(records, schema=schema)
    except (pa.ArrowException, OverflowError):
        for record in records:
            for name, value in record.items():
                try:
                    pa.array([value], schema.field(name).type)
                except (pa.ArrowException, OverflowError) as error:
                    raise ValueError(f"{record['rollout_id']}: {name}: {error}") from None
        raise


def _pyarrow() -> Tuple[Any, Any]:
    try:
        return importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise ImportError('Parquet is written by pyarrow: pip install "durable-rollouts[parquet]"') from None
