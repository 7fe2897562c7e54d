"""Batches and steps in a run of Weights & Biases."""

from __future__ import annotations

import importlib
from typing import Any, Dict, Optional

from ..connection import log
from ..results import Step
from .sources import Source, result_of, rows_of
from .table import COLUMNS, picked
from .wandb_files import last_in_files


class WandbLog:
    """Logs batches and steps. ``export.wandb()`` makes one.

        log = export.wandb()
        for number in range(500):
            step = stream.next_step(number)
            log(step)
    """

    def __init__(self, run: Any, *, prefix: str, samples: int, seed: int) -> None:
        self._wandb = _package()
        self._run = run
        self._prefix, self._samples, self._seed = prefix, samples, seed
        self._last: Optional[float] = None
        self._pending: Optional[int] = None

    def __call__(self, source: Source, step: Optional[int] = None) -> bool:
        """Logs its metrics and counts, and a table of some of its rollouts: the worst, the best, and others by ``seed``.

        source: as in ``export.parquet``; rows have no metrics, only a table
        step: of the training; a step of a stream has its own number. A step that the run has, or one before it, is not
          logged again: a trainer that starts again gets the same rows

        Returns whether it was logged. Raises what ``export.parquet`` raises.
        """
        number = source.step if step is None and isinstance(source, Step) else step
        if isinstance(number, bool) or not isinstance(number, int):
            raise ValueError(f"step: expected a whole number (only steps of a stream have one themselves), got {number!r:.80}")
        run = self._begun()
        if number <= self._last_of(run):
            log.warning("step %s is not logged: run %s has it, or a later one", number, run.id)
            return False
        said: Dict[str, Any] = {"step": number, **_numbers_of(source)}
        if self._samples > 0:
            table = [[one[name] for name in COLUMNS] for one in picked(rows_of(source), self._samples, self._seed)]
            said["rollouts"] = self._wandb.Table(columns=list(COLUMNS), data=table)
        # The trainer's next log, under a step of its own or none, completes the record, so nothing of it is dropped.
        if self._pending == run.step:
            run.log({}, commit=True)
        self._pending = run.step
        run.log({f"{self._prefix}/{name}": value for name, value in said.items()}, commit=False)
        self._last = number
        return True

    def _begun(self) -> Any:
        """The trainer may begin its run after this was made."""
        if self._run is None:
            self._run = self._wandb.run or self._wandb.init()
        return self._run

    def _last_of(self, run: Any) -> float:
        """The last step that was logged, by this process or one before it."""
        if self._last is None:
            key = f"{self._prefix}/step"
            run.define_metric(key)
            run.define_metric(f"{self._prefix}/*", step_metric=key)
            self._last = max(float(run.summary.get(key, -1)), last_in_files(run, key))
        return self._last


def wandb(run: Any = None, *, prefix: str = "rollouts", samples: int = 10, seed: int = 0) -> WandbLog:
    """What logs batches and steps to a run of W&B: one line of a training loop.

    run: of ``wandb.init``; None: the one that is active at the first call, or a new one
    prefix: of its names; ``<prefix>/step`` is their axis, beside the steps of others
    samples: rollouts of each kind in the table: the worst, the best, and some of all; 0: no table
    seed: chooses these

    A training that continues under the same run (``WANDB_RUN_ID``, ``resume="allow"``) logs no step twice, also offline.

    Returns a ``WandbLog``, to be called with each batch or step. Raises ``ImportError`` without wandb.

        log = export.wandb()
        log(client.start_batch(request, f"step-{number}"), number)
    """
    return WandbLog(run, prefix=prefix, samples=samples, seed=seed)


def _numbers_of(source: Source) -> Dict[str, float]:
    result = result_of(source)
    if result is None:
        return {}
    counts: Any = result.get("counts", {})
    return {**result["metrics"], **{f"counts/{name}": count for name, count in counts.items()}}


def _package() -> Any:
    try:
        # A folder of this name, as runs leave one, is no package.
        importlib.import_module("wandb.sdk")
        return importlib.import_module("wandb")
    except ImportError:
        raise ImportError('Runs of W&B are logged by wandb: pip install "durable-rollouts[wandb]"') from None
