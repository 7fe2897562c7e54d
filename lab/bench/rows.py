"""Reads generated rows to padded arrays, in one form: ``rows.py FOLDER jsonl|arrow``. ``lab/bench/rows.ts`` runs it."""

import json
import resource
import sys
import time
from dataclasses import fields
from pathlib import Path

import numpy as np
import pyarrow.ipc  # noqa: F401
from durable_rollouts import to_arrays
from durable_rollouts.results import read_counted, sequences_of


def own_mb():
    """The most that the process has held, pages of files that it maps included."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def main(folder, form):
    result = json.loads((Path(folder) / "metrics.json").read_text())
    before = own_mb()
    times = []
    for _ in range(1 if form == "jsonl" else 3):
        arrays = None
        started, cpu = time.monotonic(), time.process_time()
        rows = read_counted(result, "rollouts") if form == "jsonl" else sequences_of(result)
        arrays = to_arrays(rows)
        times.append((time.monotonic() - started, time.process_time() - cpu))
    held = sum(getattr(arrays, one.name).nbytes for one in fields(arrays)) / 1e6
    wall, cpu = min(times)
    check = float(np.sum(arrays.logprobs, dtype=np.float64)) + int(arrays.input_ids.sum())
    print(json.dumps({"form": form, "step": "read", "wall_s": wall, "cpu_s": cpu, "arrays_mb": held, "peak_mb": own_mb(), "before_mb": before, "check": check}))


main(*sys.argv[1:])
