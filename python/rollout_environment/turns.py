"""Which call may run next, how long the others wait, and which calls run."""

import math
import queue
import threading
import time
from contextlib import contextmanager, suppress

from .answers import CallFailed

# The share of a caller's time that is kept for the answer that its call was ended, and why.
SPARE = 0.25
MOST_SPARE_S = 5
# So long a call waits behind others that do not answer, until its caller hears which ones.
BEHIND_S = 60
# From then on a call is reported.
LONG_S = 30


class Caller:
    """A client that waits for a call, for `seconds`. A repeat with the same key joins the call, which then has more time.

    Two deployments may use one key, and so may two plays of a batch. `deployment` and `play` tell them apart, if they are
    said.
    """

    def __init__(self, key=None, seconds=math.inf, deployment=None, play=None):
        self.key, self.deployment, self.play = key, deployment, play
        self.seconds = seconds
        self.spare = min(seconds * SPARE, MOST_SPARE_S)
        self.since = time.monotonic()
        self.until = self.since + seconds
        self.call = None
        self.began = None
        self.where = None
        self.process = None

    def __str__(self):
        """`step step-17/3-0/2 has been running for 75.2 s (at puzzle.py:41 in step: …)`"""
        where = self.where()
        return f"{self.call} has been running for {self.runs_s():.1f} s" + ("" if where is None else f" (at {where})")

    def name(self, of="", instead=""):
        """The name under which its answer is remembered; None without a key. `of`, `instead`: of another call of its session."""
        return (self.deployment, self.play, self.key.replace(of, instead)) if self.key else None

    def joined_by(self, other):
        self.until = max(self.until, other.until)

    def begins(self, name, where, process=None):
        """Its time as a call counts from here: a slow call behind many others does not hang. `where` gives its line."""
        self.call = f"{name} {self.key}" if self.key else name
        self.where, self.process = where, process
        self.began = time.monotonic()
        self.until = max(self.until, self.began + self.seconds)

    def runs_s(self):
        """0 while its process is loaded."""
        return 0 if self.began is None else time.monotonic() - self.began

    def ends_at(self):
        """When its call is ended. Callers behind it still have time for a turn of their own."""
        return self.until - self.spare

    def waits_until(self):
        """For its turn."""
        return self.until - self.spare / 2


def longest(callers):
    """The one whose call has been running for the longest time; None if none runs."""
    return max((one for one in list(callers) if one.began is not None), key=Caller.runs_s, default=None)


class Turns:
    """Places for calls, one for each call at a time. The others wait, but no longer than their callers do."""

    def __init__(self, places):
        self.free = queue.Queue()
        for place in places:
            self.free.put(place)
        self.held = {}
        self.waiting = {}
        self.behind_s, self.long_s = BEHIND_S, LONG_S

    @contextmanager
    def turn(self, caller):
        place = self.take(caller)
        try:
            yield place
        finally:
            self.give(place, caller)

    def take(self, caller):
        self.waiting[caller] = True
        try:
            place = self._awaited(caller)
        finally:
            del self.waiting[caller]
        self.held[caller] = True
        return place

    def give(self, place, caller):
        """False: another call has got its place meanwhile."""
        is_held = self.held.pop(caller, False)
        if is_held:
            self.free.put(place)
        return is_held

    def overdue(self):
        """A call that runs for longer than its caller waits; None if there is none."""
        held = longest(self.held)
        return held if held is not None and held.runs_s() > held.seconds else None

    def _awaited(self, caller):
        while True:
            now = time.monotonic()
            left = caller.waits_until() - now
            if left <= 0 or (now - caller.since >= self.behind_s and self._is_in_vain(caller)):
                held = longest(self.held)
                waited = f"waited {now - caller.since:.1f} s for its turn"
                raise CallFailed(503, "NoTurn", waited if held is None else f"{waited}: {held}")
            # Those that wait are served in their order, so waiting is interrupted as seldom as possible.
            look = self.behind_s - (now - caller.since) % self.behind_s
            with suppress(queue.Empty):
                return self.free.get(timeout=min(left, look, threading.TIMEOUT_MAX))

    def _is_in_vain(self, caller):
        """Whether all copies run calls that hang. A caller without a limit waits all the same."""
        return math.isfinite(caller.seconds) and all(held.runs_s() >= self.long_s for held in list(self.held))
