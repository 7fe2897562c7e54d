"""Where an asynchronous training is: its step, the step from which nothing is replayed, and the numbers of weights.

TRL counts its syncs anew when it is started again; the record's numbers only grow. A window is the steps between two syncs.
"""

from __future__ import annotations

import threading
from typing import Optional


class Course:
    """sync_steps: ``weight_sync_steps``. first_new: the step from which on the stream has delivered nothing yet."""

    def __init__(self, sync_steps: int) -> None:
        self._sync_steps = sync_steps
        self._lock = threading.Lock()
        self._step = 0
        self._first_new = 0
        self._synced_at = 0
        self._syncs = 0
        self._version = 0

    def begin(self, step: int, *, first_new: int, version: int) -> None:
        """A training that begins, or continues from a checkpoint. version: the last that was published; 0: none was."""
        with self._lock:
            self._step, self._first_new, self._version = step, first_new, version

    def stepped(self, step: int) -> bool:
        """Behind each step, before the sync that may follow it. Returns whether none follows."""
        with self._lock:
            self._step = step
            return step % self._sync_steps != 0

    @property
    def replays(self) -> bool:
        """All steps up to the next sync were delivered before: their weights need not be published."""
        with self._lock:
            return self._end(self._step) <= self._first_new

    def published(self, version: int) -> None:
        with self._lock:
            self._version = version

    def synced(self, syncs: int) -> None:
        """``syncs``: as TRL counts them."""
        with self._lock:
            self._synced_at, self._syncs = self._step, syncs

    def may_have(self, step: int) -> bool:
        """TRL takes the first samples of a step before the step before it has ended."""
        with self._lock:
            return self._syncs > 0 and step <= max(self._step, self._synced_at) + 1

    def version_of(self, step: int) -> Optional[int]:
        """The version of the weights that will train on it. None: it was delivered before, under its own version."""
        with self._lock:
            if step < self._first_new:
                return None
            return self._version + int(step >= self._end(self._synced_at))

    def trainers_version(self, step: int) -> int:
        """The number that TRL will have when it trains on it."""
        with self._lock:
            return self._syncs + int(step >= self._end(self._synced_at))

    def _end(self, step: int) -> int:
        """The first step behind the next sync."""
        return (step // self._sync_steps + 1) * self._sync_steps
