"""Which call may run next, and how long the others wait."""

import math
import queue
import threading
import time
from collections import namedtuple
from contextlib import contextmanager, suppress

from .answers import CallFailed

# What is left of a caller's time for the answer that says why its call was ended.
SPARE = 0.25
MOST_SPARE_S = 5


class Caller:
    """Who waits for a call, for `seconds`. A repeat with the same key joins the call, which then has more time."""

    def __init__(self, key=None, seconds=math.inf):
        self.key = key
        self.seconds = seconds
        self.spare = min(seconds * SPARE, MOST_SPARE_S)
        self.since = time.monotonic()
        self.until = self.since + seconds

    def joined_by(self, other):
        self.until = max(self.until, other.until)

    def begins(self):
        """Its time as a call counts from here: a slow call behind many others does not hang."""
        self.until = max(self.until, time.monotonic() + self.seconds)

    def ends_at(self):
        """When its call is ended. Callers behind it still have time for a turn of their own."""
        return self.until - self.spare

    def waits_until(self):
        """For its turn."""
        return self.until - self.spare / 2


class Held(namedtuple("Held", "call since seconds thread")):
    """A place that a call holds."""

    def __str__(self):
        return f"{self.call} has been running for {time.monotonic() - self.since:.1f} s"


class Turns:
    """Places for calls, one for each call at a time. The others wait, but no longer than their callers do."""

    def __init__(self, places):
        self.free = queue.Queue()
        for place in places:
            self.free.put(place)
        self.held = {}

    @contextmanager
    def turn(self, name, caller):
        place = self.take(name, caller)
        try:
            yield place
        finally:
            self.give(place, caller)

    def take(self, name, caller):
        place = self._awaited(caller)
        call = f"{name} {caller.key}" if caller.key else name
        self.held[caller] = Held(call, time.monotonic(), caller.seconds, threading.get_ident())
        return place

    def give(self, place, caller):
        self.held.pop(caller, None)
        self.free.put(place)

    def longest(self):
        return min(list(self.held.values()), key=lambda held: held.since, default=None)

    def overdue(self):
        """A call that runs for longer than its caller waits; None if there is none."""
        held = self.longest()
        return held if held is not None and time.monotonic() - held.since > held.seconds else None

    def _awaited(self, caller):
        while True:
            left = caller.waits_until() - time.monotonic()
            if left <= 0:
                held = self.longest()
                waited = f"waited {time.monotonic() - caller.since:.1f} s for its turn"
                raise CallFailed(503, "NoTurn", waited if held is None else f"{waited}: {held}")
            with suppress(queue.Empty):
                return self.free.get(timeout=min(left, threading.TIMEOUT_MAX))
