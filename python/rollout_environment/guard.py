"""Ends everything that a process has started, however that process ends. It imports nothing of this package: the maths
grader uses it, too."""

import ctypes
import os
import resource
import select
import signal
import sys
import time

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
# A process that the kernel holds (a broken disk) does not end.
END_S = 5
LOOK_S = 1


def guarded(lifeline=None, parent=None, not_here=()):
    """Returns in a child process, in a process group of its own. Its guard stays behind in this one. Once the child has
    ended, the pipe `lifeline` (a number or a connection) is closed at its other end, the process `parent` has gone, or SIGTERM comes, the guard
    ends the child and all that it has started, and then ends as the child did. `not_here` are connections of the child
    alone.

    Everything that lost its parent becomes a child of the guard, also with a session of its own. (Linux. Elsewhere only
    the process group is ended.)
    """
    guard = os.getpid()
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != guard:
            os._exit(1)
        if lifeline is not None:
            # A connection that is closed behind its back closes another file when it is collected.
            os.close(lifeline) if isinstance(lifeline, int) else lifeline.close()
        return
    try:
        os.setpgid(child, child)
    except OSError:
        pass  # It has done so itself, or has ended.
    for connection in not_here:
        connection.close()
    status = _watch(child, lifeline, parent)
    _end_all(child)
    _end_like(status)


def _watch(child, lifeline, parent):
    """How the child ended; it is ended first if there is another reason."""
    waking, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    ordered = []
    signal.signal(signal.SIGTERM, lambda *_: ordered.append(True))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGUSR1, lambda *_: os.kill(child, signal.SIGUSR1))
    if parent is not None:
        _prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    streams = [waking] + ([] if lifeline is None else [lifeline])
    while True:
        status = _reap(child)
        if status is not None:
            return status
        if ordered or (parent is not None and os.getppid() != parent):
            break
        ready, _, _ = select.select(streams, [], [], None if parent is None else LOOK_S)
        if lifeline in ready:
            break
        if waking in ready:
            os.read(waking, 512)
    # It has no more time to react to the signal of its group.
    os.kill(child, signal.SIGKILL)
    while status is None:
        status = _reap(child, 0)
    return status


def _reap(child, options=os.WNOHANG):
    """Reaps what has ended; the child's status if it is among them."""
    while True:
        try:
            pid, status = os.waitpid(-1, options)
        except ChildProcessError:
            return None
        if pid == child:
            return status
        if pid == 0:
            return None


def _end_all(group):
    """Ends the group, then what is left, generation by generation: the children of those that end become ours."""
    try:
        os.killpg(group, signal.SIGKILL)
    except OSError:
        pass
    latest = time.monotonic() + END_S
    while time.monotonic() < latest:
        for pid in _children():
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            time.sleep(0.01)


def _children():
    """The children of this process; none where the system has no such list."""
    own = os.getpid()
    try:
        pids = [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []
    return [int(pid) for pid in pids if _parent_of(pid) == own]


def _parent_of(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            # Its name may hold spaces and brackets.
            return int(stat.read().rpartition(")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return None


def _end_like(status):
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 1)


def _prctl(option, value):
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, ctypes.c_ulong(value), 0, 0, 0)
