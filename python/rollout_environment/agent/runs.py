"""Runs: each a process of its own, which ends with the run, with `DELETE`, or with this server."""

import contextlib
import glob
import json
import multiprocessing
import os
import shutil
import signal
import tempfile
import threading
import time
from collections import OrderedDict
from multiprocessing.connection import wait

from .. import guard
from ..answers import CallFailed
from . import child
from .task import Task

# Characters kept of a program's output.
MOST_TAIL = 2000
# A run that nobody has asked about for so long belongs to nobody.
UNATTENDED_S = 600
# Ended runs are kept for repeated questions.
MOST_ENDED = 4096
_PIECE = 2**16
# Of folders, before the number of the process that has made them.
PREFIX = "rollout-agent-"


def context_of(name):
    """Imports the program's module once, in a process without threads that each run is forked from."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([child.__name__, name.partition(":")[0]])
    return context


class Run:
    """One life of a rollout."""

    def __init__(self, program, key, task, context):
        self.key, self.task = key, task
        self.asked = time.monotonic()
        self.ended = threading.Event()
        self.answer = {"state": "running"}
        self.tail = b""
        ours, theirs = zip(*(context.Pipe(duplex=False) for _ in range(2)))
        # Its guard ends it, and all that it has started, when our end is closed: by us, or with this process.
        line, self.lifeline = context.Pipe(duplex=False)
        try:
            self.process = context.Process(target=child.run, args=(program, task, *theirs, line))
            self.process.start()
        finally:
            for connection in (*theirs, line):
                connection.close()
        threading.Thread(target=self._follow, args=ours, daemon=True).start()

    def _follow(self, outcome, output):
        """Both are open as long as anything of the run lives."""
        said, streams = {}, [outcome, output]
        while streams:
            for stream in wait(streams):
                try:
                    if stream is outcome:
                        said = json.loads(outcome.recv_bytes())
                    else:
                        self._printed(os.read(output.fileno(), _PIECE))
                except (EOFError, OSError):
                    streams.remove(stream)
                    stream.close()
        self.process.join(2 * guard.END_S)
        self.lifeline.close()
        shutil.rmtree(self.task.folder, ignore_errors=True)
        self.answer = {"state": "ended", "exit": self._exit(), **(said if self.process.exitcode == 0 else {})}
        self.ended.set()

    def _printed(self, piece):
        if not piece:
            raise EOFError
        self.tail = (self.tail + piece)[-MOST_TAIL:]

    def _exit(self):
        code = self.process.exitcode
        is_signal = code is not None and code < 0
        return {
            "code": None if is_signal else code,
            "signal": signal.Signals(-code).name if is_signal else None,
            "tail": self.tail.decode(errors="replace").replace(self.key, "(key)"),
        }

    def end(self):
        with contextlib.suppress(OSError):
            self.lifeline.close()


def _remove_strays():
    """Folders of servers that were killed, with which their runs have ended."""
    for folder in glob.glob(os.path.join(tempfile.gettempdir(), f"{PREFIX}*-*")):
        number = os.path.basename(folder)[len(PREFIX) :].partition("-")[0]
        try:
            os.kill(int(number), 0)
        except ProcessLookupError:
            shutil.rmtree(folder, ignore_errors=True)
        except (ValueError, OverflowError, PermissionError):
            continue  # Another user's.


class Runs:
    def __init__(self, program, most):
        self.program, self.most = program, most
        self.context = context_of(program)
        self.runs = OrderedDict()
        self.lock = threading.Lock()
        _remove_strays()

    def begin(self, name, body):
        """Starts it, or finds it: the same life has the same key."""
        with self.lock:
            run = self.runs.get(name)
            if run is not None:
                if run.key != body["key"]:
                    raise CallFailed(409, "Conflict", f"{name} is here with another key")
                return run
            running = [one for one in self.runs.values() if not one.ended.is_set()]
            if len(running) >= self.most:
                raise CallFailed(503, "Busy", f"expected at most {self.most} runs at once (--runs), got another one")
            task = Task(**body, id=name, folder=tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
            run = self.runs[name] = Run(self.program, body["key"], task, self.context)
            self._forget()
            return run

    def find(self, name):
        with self.lock:
            run = self.runs.get(name)
        if run is None:
            raise CallFailed(404, "NotFound", f"there is no run {name}: it was never begun here, was deleted, or this server has started anew")
        return run

    def delete(self, name):
        """Returns once nothing of it lives. A run that is not there is deleted."""
        with self.lock:
            run = self.runs.pop(name, None)
        if run is not None:
            run.end()
            run.ended.wait(2 * guard.END_S)

    def look(self):
        """Ends what nobody asks about."""
        latest = time.monotonic() - UNATTENDED_S
        with self.lock:
            left = [run for run in self.runs.values() if run.asked < latest and not run.ended.is_set()]
        for run in left:
            run.end()

    def close(self):
        with self.lock:
            runs, self.runs = list(self.runs.values()), OrderedDict()
        for run in runs:
            run.end()
        for run in runs:
            run.ended.wait(2 * guard.END_S)

    def _forget(self):
        ended = [name for name, run in self.runs.items() if run.ended.is_set()]
        for name in ended[: max(0, len(ended) - MOST_ENDED)]:
            del self.runs[name]
