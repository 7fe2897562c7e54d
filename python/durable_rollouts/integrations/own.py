"""The versions of one training among those of a service. Rows of others are never trained."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Callable, Iterable, List, Mapping, Optional, Set

import numpy as np

from ..aio.policy import numbers_of
from ..answers import CourseRecord, PolicyRecord, PolicyStatus
from ..connection import log
from ..faults import ForeignWeights, NotFound, PolicyUpdateFailed
from ..loop import run as _run
from ..results import Row
from ..sync import Policy
from ..trajectories import trajectories
from .folders import Kind, answered, in_time, next_version, put_and_publish


HOLD_S = 300
"""As the policy has it."""


class Labels:
    """The record of who brought which versions. run: names the training."""

    def __init__(self, run: str) -> None:
        self.run = run
        self._found: Set[Optional[int]] = set()
        self._courses: List[CourseRecord] = []
        self._until = -1

    def reads(self, record: Optional[PolicyRecord], *, at_start: bool = False) -> None:
        if record is not None:
            self._courses = record.get("courses", [])
            self._until = max(numbers_of(record), default=-1)
            if at_start:
                self._found.add(record["version"])

    def foreign(self, rows: Iterable[Row]) -> Optional[str]:
        """Names the first row with a version that this run neither found at its start nor published; None: there is none."""
        for one in trajectories(rows):
            for version in np.unique(one.versions[one.versions >= 0]).tolist():
                if not self._is_own(version):
                    return (
                        f"{one.rollout_id}: expected versions that {self.run!r} has published, or found when it began, got "
                        f"{version}, of {self._whose(version)}: two trainings share this service"
                    )
        return None

    def _is_own(self, version: int) -> bool:
        if version > self._until:  # The record has not been read since.
            return False
        if version in self._found or any(one["name"] == self.run and one["found"] == version for one in self._courses):
            return True
        course = self._course_of(version)
        # Versions from before the record named trainers may be anybody's.
        return course is None or course["name"] == self.run

    def _course_of(self, version: int) -> Optional[CourseRecord]:
        return next((one for one in reversed(self._courses) if one["first"] <= version), None)

    def _whose(self, version: int) -> str:
        course = self._course_of(version)
        return "a trainer without a name" if course is None or course["name"] is None else repr(course["name"])


class Own:
    """A training's hold on a service, and its labels.

    take_over: takes the service from another training, once
    """

    def __init__(self, policy: Policy, run: str, *, take_over: bool = False) -> None:
        self._policy = policy
        self._labels = Labels(run)
        self._take_over = take_over
        self._is_begun = False

    def begin(self, *, says: bool = True) -> None:
        """Gives signs of life from now on, if it ``says`` so: of several ranks one does. Raises ``PolicyUpdateFailed`` where another training holds the service."""
        status, run = self._status(), self._labels.run
        record = None if status is None else status["record"]
        self._labels.reads(record, at_start=True)
        hold = None if record is None else record.get("hold")
        if status is not None and hold is not None and hold["name"] != run and not self._take_over:
            silent_s = time.time() - status.get("heard_at", 0) / 1000
            if silent_s < HOLD_S:
                raise PolicyUpdateFailed(
                    f"holder: {hold['name']!r} holds service {self._policy.service!r}, and was heard {silent_s:.0f} s ago; got {run!r}. "
                    f"A hold ends {HOLD_S // 60} min after its last sign of life, or by `temporal-rollout policy release --holder "
                    f"{hold['name']}`; take_over=True takes the service from it"
                )
        if says:
            self._is_begun = True
            _run(self._policy._aio._begins(run))

    @property
    def options(self) -> Any:
        """The options of ``Policy.publish`` and ``transfer``."""
        return {"holder": self._labels.run, **({"take_over": True} if self._take_over else {})}

    def put(self, save: Callable[[Path], Any], *, folder: Path, options: Mapping[str, Any], kind: Kind = "checkpoint") -> int:
        """Publishes what ``save`` puts into a folder, under the next number, which it returns."""
        version = next_version(self._policy)
        put_and_publish(self._policy, version, save, folder=folder, options={**options, **self.options}, kind=kind)
        self.published()
        return version

    def published(self) -> None:
        """A training that takes the service over later keeps it."""
        self._take_over = False

    def end(self) -> None:
        """Lets others bring weights, if this process gave signs of life. Raises nothing: the training has ended."""
        if not self._is_begun:
            return
        try:
            self._policy.release(self._labels.run)
        except Exception as error:
            log.warning("service %s is not released: %s", self._policy.service, error)

    def check(self, rows: Iterable[Row]) -> None:
        """Raises ``ForeignWeights``, naming a rollout, a version and whose it is."""
        rows = list(rows)
        if self._labels.foreign(rows) is None:
            return
        # It was published since.
        self._labels.reads(in_time(self._known, NotFound, "the record is not there yet"))
        found = self._labels.foreign(rows)
        if found is not None:
            raise ForeignWeights(found)

    def record(self) -> Optional[PolicyRecord]:
        """None: nothing was published yet."""
        status = self._status()
        return None if status is None else status["record"]

    def _known(self) -> PolicyRecord:
        record = answered(self._policy.status)["record"]
        if record is None:
            raise NotFound(f"{self._policy.service}: nothing has been published")
        return record

    def _status(self) -> Optional[PolicyStatus]:
        try:
            return answered(self._policy.status)
        except NotFound:
            return None
