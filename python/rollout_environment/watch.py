"""Tells of calls that run for long."""

import sys

from .traces import plain
from .turns import LONG_S

# A call is reported again when it has been running for this many times as long.
AGAIN = 2


class Watch:
    def __init__(self, calls, long_s=LONG_S):
        self.calls = calls
        self.long_s = long_s
        self.due = {}

    def look(self):
        self.calls.make_room()
        running = list(self.calls.running)
        self.due = {one: due for one, due in self.due.items() if one in running}
        for one in running:
            if one.runs_s() >= self.due.get(one, self.long_s):
                write(str(one))
                self.due[one] = AGAIN * max(self.long_s, one.runs_s())

    def long(self):
        """The longest first."""
        found = [one for one in list(self.calls.running) if one.runs_s() >= self.long_s]
        return [str(one) for one in sorted(found, key=lambda one: -one.runs_s())]


def write(text):
    """To the server's log, in one piece: several threads write to it."""
    sys.stderr.write(plain(text) + "\n")
    sys.stderr.flush()
