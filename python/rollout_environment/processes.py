"""Runs an environment in separate processes: a call that hangs, or ends its process, affects no other call."""

import hashlib
import pickle
import threading
import time
from collections import OrderedDict, deque
from concurrent.futures import TimeoutError as NoAnswer
from typing import Any, Optional

from .answers import CallFailed
from .process import Died, Process, spawn
from .traces import at
from .turns import Caller, Turns, longest

# Below the five minutes that a caller of kind `http` waits.
TIMEOUT_S = 240
# Deaths in a row, without one answer between them.
MOST_DEATHS = 5
SET_ASIDE_S = 30
MOST_SUSPECTS = 1024
# A call that runs for longer, while others wait, goes on outside the processes that serve them.
PATIENCE_S = 10
MOST_OUTSIDE = 4
# With that many outside, the longest is ended after so many times the patience.
PATIENCES = 6
# The last answers show how long a call of this class usually takes.
LAST_ANSWERS = 64


class Isolated:
    """Runs an environment in processes of its own: a call that hangs, or ends its process, affects no other call.

    name: ``module:Class``, or with ``copies`` a name for messages
    timeout: seconds of one call; None: those of the class, else 240
    processes: how many; None: those of the class, else 1. Each plays one call at a time, or many if the class says
      ``thread_safe = True``
    copies: where its processes come from (template.py); None: they import ``name``

    Raises ``CallFailed`` if the environment cannot be loaded.

        create_server(Isolated("guess:Guess"), port=9000).serve_forever()

    A call that takes more than ``timeout`` seconds (or than its caller waits, if that is less), or ends its process,
    has failed (500). Calls that shared its process are tried again (503). If several calls shared a process that died,
    each is tried again in its own process, so that only the faulty one fails. An environment whose process dies again
    and again is set aside for a while.

    A slow call does not hold up others: it keeps its process, and a new one takes its place. Next time, one that did
    not answer has its own process from the start. A class that may hold something in memory stays in one process.
    """

    def __init__(
        self, name: str, *, timeout: Optional[float] = None, processes: Optional[int] = None, copies: Any = None
    ) -> None:
        self.name = name
        self.start = spawn(name) if copies is None else copies.start
        self.lock = threading.Lock()
        self.deaths = 0
        began = time.monotonic()
        first = Process(self.start, self._count)
        if first.hello[0] != "ready":
            raise CallFailed(500, "Unavailable", *first.hello[1:])
        _, self.has, self.end_takes_session, said = first.hello
        self.timeout = timeout or said["timeout"] or TIMEOUT_S
        loaded_in = time.monotonic() - began
        # The user sees how long the first process loads, but not how long later ones do.
        self.load_within = round(self.timeout + 2 * loaded_in)
        self.parallel = bool(said["thread_safe"])
        asked = processes or said["processes"]
        places = asked or 1
        holds = "begin" in self.has or "end" in self.has
        self.makes_room = not self.parallel and (places > 1 or (asked is None and not holds))
        self.turns = Turns([first] + [None] * (places - 1))
        # Each process more costs what the class loads.
        self.turns_alone = Turns([None] * max(places, MOST_OUTSIDE if self.makes_room else 0))
        self.least_patience = max(PATIENCE_S, 2 * loaded_in)
        self.took = deque(maxlen=LAST_ANSWERS)
        self.aside_until = 0.0
        self.last = ""
        self.suspects = OrderedDict()
        self.processes = [first]
        self.running = {}
        self.outside = {}
        self.closed = False

    def call(self, name: str, *arguments: Any, caller: Optional[Caller] = None) -> Any:
        """Calls the environment, for the server.

        name: of the method
        arguments: plain JSON
        caller: whose call it is, and how long he waits

        Returns the answer as plain JSON. Raises ``CallFailed``.
        """
        self.health()
        caller = caller or Caller()
        digest = hashlib.sha256(pickle.dumps((name, arguments))).digest()
        if digest in self.suspects:
            with self.turns_alone.turn(caller):
                return self._alone(digest, name, arguments, caller)
        process = self.turns.take(caller)
        kept = None
        try:
            process = process if process is not None and not process.dead else self._opened()
            kept = process
            if self.parallel:
                # The next caller shares it.
                self.turns.give(process, caller)
            return self._asked(process, digest, name, arguments, caller)
        finally:
            if (not self.parallel or kept is None) and not self.turns.give(kept, caller):
                del self.outside[caller]
                kept.close()

    def health(self) -> None:
        """Says that it can be called.

        Raises ``CallFailed`` while it is set aside.
        """
        left = self.aside_until - time.monotonic()
        if left > 0:
            raise CallFailed(
                503, "SetAside", f"{self.name} is set aside for {left:.0f} s: its process ended {self.last}, {self.deaths} times in a row"
            )

    def make_room(self) -> None:
        """For calls that wait behind a slow one. The server calls it every second or so.

        Raises nothing of its own.
        """
        slow = longest(self.turns.held)
        if not self.makes_room or not self.turns.waiting or slow is None or slow.runs_s() < self._patience():
            return
        if len(self.outside) >= MOST_OUTSIDE:
            last = longest(self.outside)
            if last is not None and last.runs_s() >= PATIENCES * self._patience():
                last.process.make_room(f"after {last.runs_s():.1f} s, because other calls waited")
            return
        # Before its own thread can find that its place is lost.
        self.outside[slow] = True
        if not self.turns.give(None, slow):
            self.outside.pop(slow, None)

    def close(self) -> None:
        """Ends its processes.

        Raises nothing of its own.
        """
        with self.lock:
            processes, self.processes, self.closed = self.processes, [], True
        for process in processes:
            process.close()

    def _patience(self):
        return max(self.least_patience, 2 * max(list(self.took), default=0))

    def _alone(self, digest, name, arguments, caller):
        process = self._opened()
        try:
            answer = self._asked(process, digest, name, arguments, caller)
            self.suspects.pop(digest, None)
            return answer
        finally:
            process.close()

    def _opened(self):
        process = Process(self.start, self._count, self.load_within)
        if process.hello[0] != "ready":
            self._count(f"while it was loaded ({process.hello[1]})")
            raise CallFailed(503, "Unavailable", f"{self.name} cannot be loaded: {process.hello[1]}", process.hello[2])
        with self.lock:
            self.processes = [p for p in self.processes if not p.dead] + [process]
            closed = self.closed
        if closed:
            process.close()
            raise CallFailed(503, "Unavailable", f"{self.name} is closed")
        return process

    def _asked(self, process, digest, name, arguments, caller):
        caller.begins(name, process.where_now, process)
        self.running[caller] = True
        try:
            answer = self._answer(process.send(name, arguments), caller)
        except NoAnswer:
            within = f"within {caller.runs_s():.1f} s"
            if digest in self.suspects:
                # It is to blame, and not the environment.
                process.died = None
            where = process.stop_late(f"because a call did not answer {within}")
            if self.makes_room:
                self._suspect(digest)
            message = f"{name} did not answer {within}, and its process was ended{at(where)}"
            raise CallFailed(500, "NoAnswer", message) from None
        except Died as death:
            raise self._fault_of(death, process, digest, name) from None
        finally:
            del self.running[caller]
        self.deaths = 0
        self.took.append(caller.runs_s())
        return answer

    def _fault_of(self, death, process, digest, name):
        if process.made_room:
            self._suspect(digest)
            message = f"{name} was ended {process.why}{at(process.place)}; it is tried again in its own process"
            return CallFailed(503, "MadeRoom", message)
        if process.why is not None:
            message = f"its process was ended {process.why}, and this call shared it"
            return CallFailed(503, "ProcessEnded", message)
        if not death.alone:
            self._suspect(digest)
            message = f"its process ended with {death.how} while it answered other calls, too"
            return CallFailed(503, "ProcessEnded", message)
        return CallFailed(500, "ProcessEnded", f"{name} ended its process with {death.how}{at(death.where)}")

    def _answer(self, future, caller):
        """Raises NoAnswer at its limit, which a repeat of the call may move."""
        latest = time.monotonic() + self.timeout
        while True:
            left = min(latest, caller.ends_at()) - time.monotonic()
            try:
                return future.result(max(0, left))
            except NoAnswer:
                if left <= 0:
                    raise

    def _suspect(self, digest):
        with self.lock:
            self.suspects[digest] = True
            while len(self.suspects) > MOST_SUSPECTS:
                self.suspects.popitem(last=False)

    def _count(self, how):
        with self.lock:
            self.deaths += 1
            self.last = how
            if self.deaths >= MOST_DEATHS:
                self.aside_until = time.monotonic() + SET_ASIDE_S

