"""A copy of a process, from which the processes of an environment are forked.

Functions of a notebook or a script exist in the memory of one process. A fork has them as they are, with all that they
use, and runs nothing twice. It is made once, when they are given: all processes of an environment, also those that
replace others later, have the same code, whatever the notebook defines meanwhile. It has one thread, so forking it is
safe at any time. The server that asks it for processes is a program of its own.
"""

import array
import asyncio
import ctypes
import gc
import os
import select
import signal
import socket
import stat
import sys
import threading
import warnings
from multiprocessing.connection import Connection

from . import child
from .answers import CallFailed

# How often it is looked whether the copied process lives.
LOOK_MS = 1000
MOST_PATH = 4096
# A forked process says that it has begun.
BEGINS_S = 30
GONE = "the copy of the process that its functions are from has ended; give them again (durable_rollouts.local)"


class Template:
    """Made in the process that has the environment, which is `found`. `log` is where its copies print."""

    def __init__(self, found, log):
        if not hasattr(os, "fork"):
            raise RuntimeError("this system cannot copy a process: give the environment as 'module:name', which is imported")
        self.control, theirs = socket.socketpair()
        parent = os.getpid()
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        with warnings.catch_warnings():
            # Threads are not copied, and locks that they hold stay held, such as that of a pool.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.pid = os.fork()
        if self.pid == 0:
            try:
                _become(theirs, log)
                _fork_for(theirs, found, parent)
            finally:
                os._exit(1)
        theirs.close()

    def close(self):
        """Ends the copy. Processes forked from it go on until the server ends them."""
        self.control.close()
        try:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass  # Other code has reaped it.


def _become(control, log):
    """Leaves everything of the copied process but its memory."""
    # Objects made before belong to the original: sockets are not closed here, threads are not waited for.
    gc.freeze()
    os.setsid()
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGCHLD, signal.SIGUSR1, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asyncio._set_running_loop(None)
    _forget_connections(control.fileno())
    _forget_threads()
    written = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    for number in (1, 2):
        os.dup2(written, number)
    os.close(written)
    # A notebook's own streams write to its connections.
    _KEPT.append((sys.stdin, sys.stdout, sys.stderr))
    sys.stdin = open(os.devnull)
    sys.stdout, sys.stderr = (open(number, "w", buffering=1, errors="backslashreplace", closefd=False) for number in (1, 2))


_KEPT = []


def _forget_connections(control):
    """Sockets and pipes, which the original closes and means to be closed then. Their numbers stay taken, so that what
    still writes to one does not write to another file. Files stay open.
    """
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    for name in os.listdir("/proc/self/fd" if sys.platform == "linux" else "/dev/fd"):
        number = int(name)
        if number < 3 or number in (control, nothing):
            continue
        try:
            kind = stat.S_IFMT(os.fstat(number).st_mode)
        except OSError:
            continue  # The descriptor of the list itself.
        if kind in (0, stat.S_IFSOCK, stat.S_IFIFO):
            os.dup2(nothing, number, inheritable=False)
    os.close(nothing)


def _forget_threads():
    """GNU's OpenMP, with which torch and others compute, would wait for its threads for ever: they are not copied."""
    try:
        with open("/proc/self/maps") as maps:
            loaded = {line.split(maxsplit=5)[5].rstrip() for line in maps if "/libgomp" in line}
        for path in loaded:
            ctypes.CDLL(path).omp_set_num_threads(1)
    except (OSError, AttributeError):
        pass  # Not Linux, or the library was replaced meanwhile.


def _fork_for(control, found, parent):
    """A process for each request, until nobody can ask any more or the original has ended."""
    waking, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    poll = select.poll()
    poll.register(waking, select.POLLIN)
    poll.register(control, select.POLLIN)
    told = {}
    while True:
        ready = dict(poll.poll(LOOK_MS))
        if waking in ready:
            os.read(waking, 512)
        _tell_ended(told)
        if os.getppid() != parent:
            os._exit(0)
        if control.fileno() not in ready:
            continue
        path, given = _received(control)
        if path is None:
            os._exit(0)
        connection, lifeline, status = given
        pid = os.fork()
        if pid == 0:
            try:
                _leave(control, (waking, wake, status, *told.values()))
                child.run(found, Connection(connection), Connection(lifeline, writable=False), path)
            finally:
                os._exit(1)
        for number in (connection, lifeline):
            os.close(number)
        told[pid] = status
        _write(status, pid)


def _leave(control, pipes):
    """In the process that was forked."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number in pipes:
        os.close(number)
    control.close()
    # As Python's own does; else all processes would draw the same numbers.
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()


def _received(control):
    size = 3 * array.array("i").itemsize
    try:
        path, more, _, _ = control.recvmsg(MOST_PATH, socket.CMSG_LEN(size))
    except ConnectionError:
        return None, ()
    given = array.array("i")
    for level, kind, data in more:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            given.frombytes(data[: len(data) - len(data) % given.itemsize])
    return (path.decode(), list(given)) if path and len(given) == 3 else (None, ())


def _tell_ended(told):
    while told:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        number = told.pop(pid, None)
        if number is not None:
            _write(number, os.waitstatus_to_exitcode(status))
            os.close(number)


def _write(number, value):
    try:
        os.write(number, b"%d\n" % value)
    except OSError:
        pass  # The reader is gone.


class Copies:
    """For the server: starts processes of the template behind this socket."""

    def __init__(self, number):
        self.control = socket.socket(fileno=number)
        self.lock = threading.Lock()

    def start(self, connection, lifeline, dump_path):
        status, theirs = os.pipe()
        try:
            with self.lock:
                given = array.array("i", [connection.fileno(), lifeline.fileno(), theirs])
                self.control.sendmsg([os.fsencode(dump_path)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, given)])
                os.close(theirs)
                theirs = None
                pid = _number_from(status, BEGINS_S)
        except OSError:
            pid = None
        finally:
            if theirs is not None:
                os.close(theirs)
        if pid is None or pid is _LATE:
            os.close(status)
            raise CallFailed(503, "Unavailable", GONE)
        return Copy(pid, status)


class Copy:
    """A started process, with what `multiprocessing.Process` has."""

    def __init__(self, pid, status):
        self.pid, self.status = pid, status
        self.exitcode = None
        self.lock = threading.Lock()

    def join(self, timeout):
        with self.lock:
            if self.exitcode is not None:
                return
            code = _number_from(self.status, timeout)
            if code is _LATE:
                return
            # The template has ended first, and what it has started ends with this server at the latest.
            self.exitcode = -signal.SIGKILL if code is None else code
            os.close(self.status)

    def is_alive(self):
        self.join(0)
        return self.exitcode is None

    def kill(self):
        if self.is_alive():
            os.kill(self.pid, signal.SIGKILL)


_LATE = object()


def _number_from(pipe, timeout):
    """None: its other end is closed. `_LATE`: nothing has come."""
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    if not poll.poll(1000 * timeout):
        return _LATE
    text = b""
    while not text.endswith(b"\n"):
        part = os.read(pipe, 1)
        if not part:
            return None
        text += part
    return int(text)
