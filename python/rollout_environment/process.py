"""One process that an environment runs in, and the calls that it has not answered."""

import contextlib
import multiprocessing
import os
import signal
import tempfile
import threading
import time
from concurrent.futures import Future

from . import child, guard
from .answers import CallFailed
from .traces import at, place_in_dump

_SPAWN = multiprocessing.get_context("spawn")


def spawn(name):
    """Starts processes that import `module:Class`."""

    def start(connection, lifeline, dump_path):
        # Not a daemon: those may have no child processes.
        process = _SPAWN.Process(target=child.run, args=(name, connection, lifeline, dump_path))
        process.start()
        return process

    return start


# A dump of its threads is written within this time.
DUMP_S = 0.2
# So long a place counts as the present one.
PLACE_S = 1
# A guard needs less, unless the kernel holds what it ends.
END_S = 2 * guard.END_S


class Process:
    def __init__(self, start, died, within=None):
        handle, self.dump_path = tempfile.mkstemp(prefix="rollout-environment-")
        os.close(handle)
        self.connection, theirs = _SPAWN.Pipe()
        # Its guard ends it, and all that it has started, when our end is closed: by us, or with the server.
        their_line, self.lifeline = _SPAWN.Pipe(duplex=False)
        try:
            self.process = start(theirs, their_line, self.dump_path)
        except BaseException:
            os.unlink(self.dump_path)
            raise
        finally:
            theirs.close()
            their_line.close()
        self.lock = threading.Lock()
        self.sending = threading.Lock()
        self.reaping = threading.Lock()
        self.asking = threading.Lock()
        self.asked = -PLACE_S
        self.place = None
        self.read = 0
        self.pending = {}
        self.calls = 0
        self.dead = False
        self.died = died
        self.why = None
        self.made_room = False
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
        how, where = self._exit(), self._dumped()
        died = self.died
        if died is not None:
            died(self.why or f"with {how}{at(where)}")
        for future in lost:
            future.set_exception(Died(how, where, alone=len(lost) == 1))
        self.end()

    def _exit(self):
        with self.reaping:
            self.process.join(END_S)
            code = self.process.exitcode
        return signal.Signals(-code).name if code is not None and code < 0 else f"code {code}"

    def where_now(self):
        with self.asking:
            if time.monotonic() - self.asked > PLACE_S:
                self._look()
            return self.place

    def stop_late(self, why):
        """Returns where it was, which calls that are late at the same time share."""
        with self.asking:
            if self.why is None:
                self._look()
                self.why = why
            self.end()
            return self.place

    def make_room(self, why):
        """This is no death that counts."""
        self.died = None
        self.made_room = True
        self.stop_late(why)

    def _look(self):
        if not hasattr(signal, "SIGUSR1") or self.dead or not self.process.is_alive():
            return
        os.kill(self.process.pid, signal.SIGUSR1)
        time.sleep(DUMP_S)
        self.place = self._dumped()
        self.asked = time.monotonic()

    def _dumped(self):
        """The traceback that was written since the last time."""
        try:
            with open(self.dump_path) as dump:
                dump.seek(self.read)
                text = dump.read()
                self.read = dump.tell()
        except OSError:
            return None
        return place_in_dump(text)

    def close(self):
        """It has done its work, so this is not a death."""
        self.died = None
        self.end()

    def end(self):
        with self.lock:
            self.dead = True
        with self.reaping:
            self.lifeline.close()
            self.process.join(END_S)
            if self.process.is_alive():
                self.process.kill()
                self.process.join(END_S)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.dump_path)


class Died(Exception):
    def __init__(self, how, where, alone):
        super().__init__(how, where, alone)
        self.how, self.where, self.alone = how, where, alone
