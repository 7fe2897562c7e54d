"""Runs an environment in separate processes: a call that hangs, or ends its process, affects no other call."""

import contextlib
import hashlib
import multiprocessing
import os
import pickle
import signal
import tempfile
import threading
import time
from collections import OrderedDict
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NoAnswer

from . import child
from .answers import CallFailed
from .traces import place_in_dump
from .turns import Caller, Turns

# Below the five minutes that a caller of kind `http` waits.
TIMEOUT_S = 240
# Deaths in a row, without one answer between them.
MOST_DEATHS = 5
SET_ASIDE_S = 30
MOST_SUSPECTS = 1024

_SPAWN = multiprocessing.get_context("spawn")


class _Process:
    def __init__(self, name, died, within=None):
        handle, self.dump_path = tempfile.mkstemp(prefix="rollout-environment-")
        os.close(handle)
        self.connection, theirs = _SPAWN.Pipe()
        # Not a daemon: those may have no child processes. It ends when the pipe does.
        self.process = _SPAWN.Process(target=child.run, args=(name, theirs, self.dump_path))
        self.process.start()
        theirs.close()
        self.lock = threading.Lock()
        self.sending = threading.Lock()
        self.reaping = threading.Lock()
        self.pending = {}
        self.calls = 0
        self.dead = False
        self.died = died
        self.why = None
        try:
            late = ("failed", f"it was not loaded within {within} s", None)
            self.hello = self.connection.recv() if self.connection.poll(within) else late
        except EOFError:
            self.hello = ("failed", f"its process ended with {self._exit()} while it was loaded", None)
        if self.hello[0] == "ready":
            threading.Thread(target=self._read, daemon=True).start()
        else:
            self.end()

    def send(self, name, arguments):
        future = Future()
        with self.lock:
            if self.dead:
                raise CallFailed(503, "Unavailable", "its process has just ended")
            self.calls += 1
            self.pending[self.calls] = future
            number = self.calls
        try:
            with self.sending:
                self.connection.send((number, name, arguments))
        except OSError:
            pass  # The reader finds that it has ended, and reports it.
        return future

    def _read(self):
        try:
            while True:
                number, how, value = self.connection.recv()
                with self.lock:
                    future = self.pending.pop(number, None)
                if future is None:
                    continue
                if how == "ok":
                    future.set_result(value)
                else:
                    future.set_exception(CallFailed(*value))
        except (EOFError, OSError):
            self._lose()

    def _lose(self):
        with self.lock:
            self.dead = True
            lost, self.pending = list(self.pending.values()), {}
        how, where = self._exit(), self.where()
        died = self.died
        if died is not None:
            died(self.why or f"with {how}{_at(where)}")
        for future in lost:
            future.set_exception(_Died(how, where, alone=len(lost) == 1))
        self.end()

    def _exit(self):
        with self.reaping:
            self.process.join(5)
            code = self.process.exitcode
        return signal.Signals(-code).name if code is not None and code < 0 else f"code {code}"

    def where(self):
        """Where it was, after it was asked or died of a fault."""
        try:
            with open(self.dump_path) as dump:
                return place_in_dump(dump.read())
        except OSError:
            return None

    def stop_late(self, why):
        """Returns where it was."""
        self.why = why
        if hasattr(signal, "SIGUSR1") and self.process.is_alive():
            os.kill(self.process.pid, signal.SIGUSR1)
            time.sleep(0.2)
        where = self.where()
        self.end()
        return where

    def close(self):
        """It has done its work, so this is not a death."""
        self.died = None
        self.end()

    def end(self):
        with self.lock:
            self.dead = True
        with self.reaping:
            if self.process.is_alive():
                self.process.kill()
            self.process.join(5)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.dump_path)


class _Died(Exception):
    def __init__(self, how, where, alone):
        super().__init__(how, where, alone)
        self.how, self.where, self.alone = how, where, alone


class Isolated:
    """Runs `module:Class` in `processes` processes: one call at a time in each, or many if it says `thread_safe =
    True`.

    A call that takes more than `timeout` seconds (or than its caller waits, if that is less), or ends its process, has
    failed (500). Calls that shared its process are tried again (503). If several calls shared a process that died, each
    is tried again in its own process, so that only the faulty one fails. An environment whose process dies again and
    again is set aside for a while.
    """

    def __init__(self, name, *, timeout=None, processes=None):
        self.name = name
        self.lock = threading.Lock()
        self.deaths = 0
        began = time.monotonic()
        first = _Process(name, self._count)
        if first.hello[0] != "ready":
            raise CallFailed(500, "Unavailable", *first.hello[1:])
        _, self.has, self.end_takes_session, said = first.hello
        self.timeout = timeout or said["timeout"] or TIMEOUT_S
        # Whoever starts the server sees how long its first process loads. Nobody sees it of the others.
        self.load_within = round(self.timeout + 2 * (time.monotonic() - began))
        self.parallel = bool(said["thread_safe"])
        places = processes or said["processes"] or 1
        self.turns = Turns([first] + [None] * (places - 1))
        # Each process more costs what the class loads.
        self.turns_alone = Turns([None] * places)
        self.aside_until = 0.0
        self.last = ""
        self.suspects = OrderedDict()
        self.running = [first]

    def call(self, name, *arguments, caller=None):
        self.health()
        caller = caller or Caller()
        digest = hashlib.sha256(pickle.dumps((name, arguments))).digest()
        if digest in self.suspects:
            with self.turns_alone.turn(name, caller):
                return self._alone(digest, name, arguments, caller)
        process = self.turns.take(name, caller)
        kept = None
        try:
            process = process if process is not None and not process.dead else self._opened()
            kept = process
            if self.parallel:
                # The next caller shares it.
                self.turns.give(process, caller)
            return self._asked(process, digest, name, arguments, caller)
        finally:
            if not self.parallel or kept is None:
                self.turns.give(kept, caller)

    def health(self):
        left = self.aside_until - time.monotonic()
        if left > 0:
            raise CallFailed(
                503, "SetAside", f"{self.name} is set aside for {left:.0f} s: its process ended {self.last}, {self.deaths} times in a row"
            )

    def close(self):
        with self.lock:
            running, self.running = self.running, []
        for process in running:
            process.close()

    def _alone(self, digest, name, arguments, caller):
        process = self._opened()
        try:
            answer = self._asked(process, digest, name, arguments, caller)
            self.suspects.pop(digest, None)
            return answer
        finally:
            process.close()

    def _opened(self):
        process = _Process(self.name, self._count, self.load_within)
        if process.hello[0] != "ready":
            self._count(f"while it was loaded ({process.hello[1]})")
            raise CallFailed(503, "Unavailable", f"{self.name} cannot be loaded: {process.hello[1]}", process.hello[2])
        with self.lock:
            self.running = [p for p in self.running if not p.dead] + [process]
        return process

    def _asked(self, process, digest, name, arguments, caller):
        caller.begins()
        began = time.monotonic()
        try:
            answer = self._answer(process.send(name, arguments), caller)
        except NoAnswer:
            within = f"within {time.monotonic() - began:.1f} s"
            where = process.stop_late(f"because a call did not answer {within}")
            message = f"{name} did not answer {within}, and its process was ended{_at(where)}"
            raise CallFailed(500, "NoAnswer", message) from None
        except _Died as death:
            if process.why is not None:
                message = f"its process was ended {process.why}, and this call shared it"
                raise CallFailed(503, "ProcessEnded", message) from None
            if not death.alone:
                self._suspect(digest)
                message = f"its process ended with {death.how} while it answered other calls, too"
                raise CallFailed(503, "ProcessEnded", message) from None
            message = f"{name} ended its process with {death.how}{_at(death.where)}"
            raise CallFailed(500, "ProcessEnded", message) from None
        self.deaths = 0
        return answer

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


def _at(where):
    return "" if where is None else f" (at {where})"
