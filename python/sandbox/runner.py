"""One interpreter: reads snippets as JSON lines, runs them where they can reach nothing, answers as JSON lines.

`main` gets the first line of its input, {level, semantics, guarded, folder, limits, readable, writable, owns_other_files,
max_output, seed}. It confines the process, answers {"ready": pid} and then each {"id", "blocks": [code]} with
{"id", "outcomes"}, up to the first block that fails. A snippet can write answers of its own: nothing in them is to be
taken for true.
"""

import fcntl
import io
import json
import os
import random
import select
import signal
import sys

import confine
import limits
import removal
import snippets

LIFELINE = 3


def guard(hello):
    """Returns in a child with its own process group. The parent stays outside. It ends the whole group when the child
    or
    the lifeline ends (the worker holds its other end), takes over orphans so that they stay visible, and removes the
    folder. It loads everything before the child runs, so nothing that is written into the folder is ever code for it.
    """
    folder = removal.hold(hello["folder"])
    if hello["level"] != "unsafe":
        # The child is in a domain within this one, so it can be ended from here.
        above = os.path.dirname(hello["folder"])
        confine.landlock([*rules_of(hello), (above, confine.REMOVE_DIR)])
    if sys.platform == "linux":
        confine.prctl(confine.PR_SET_CHILD_SUBREAPER, 1)
    parent = os.getpid()
    waking, wake = os.pipe()
    child = limits.fork_within(hello["limits"])
    if child == 0:
        for file in (waking, wake, LIFELINE, folder):
            os.close(file)
        os.setpgid(0, 0)
        if sys.platform == "linux":
            confine.prctl(confine.PR_SET_PDEATHSIG, confine.SIGKILL)
            if os.getppid() != parent:
                os._exit(1)
        os.chdir(hello["folder"])
        return
    os.setpgid(child, child)
    status = watch(child, (waking, wake))
    removal.remove(hello["folder"], folder)
    # Ends like its child: the worker reads the reason from here.
    if os.WIFSIGNALED(status):
        os._exit(128 + os.WTERMSIG(status))
    os._exit(os.WEXITSTATUS(status))


def watch(child, pipe):
    """How the child ended; then nothing of its group is left."""
    waking, wake = pipe
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for stream in (0, 1):
        os.close(stream)
    status = None
    while status is None:
        ready, _, _ = select.select([waking, LIFELINE], [], [])
        if LIFELINE in ready:
            break
        os.read(waking, 512)
        status = reap(child, os.WNOHANG)
    try:
        os.killpg(child, signal.SIGKILL)
    except ProcessLookupError:
        pass
    last = reap(child, 0)
    return last if status is None else status


def reap(child, options):
    """Reaps every child that has ended; returns the status of this one, if it is among them."""
    status = None
    while True:
        try:
            pid, result = os.waitpid(-1, options)
        except ChildProcessError:
            return status
        if pid == 0:
            return status
        if pid == child:
            status = result


class Bounded(io.RawIOBase):
    """The target of `print`: beyond the limit it is counted, but not kept. Programs that write to fd 1 themselves meet
    the
    limit on a file's size instead.
    """

    def __init__(self, bound):
        self.bound = bound
        self.written = 0

    def writable(self):
        return True

    def fileno(self):
        return 1

    def write(self, data):
        data = bytes(data)
        room = max(0, self.bound - self.written)
        if room > 0:
            os.write(1, data[:room])
        self.written += len(data)
        return len(data)


class Output:
    """Standard output and error of snippets: a file in memory, since nobody reads a pipe while a snippet runs."""

    def __init__(self, bound):
        self.bound = bound
        self.file = os.memfd_create("output") if hasattr(os, "memfd_create") else unnamed_file()
        fcntl.fcntl(self.file, fcntl.F_SETFL, os.O_APPEND)
        os.dup2(self.file, 1)
        os.dup2(self.file, 2)

    def begin(self):
        self.raw = Bounded(4 * self.bound)
        text = io.TextIOWrapper(self.raw, encoding="utf-8", errors="replace", write_through=True)
        sys.stdout = sys.stderr = sys.__stdout__ = sys.__stderr__ = text

    def take(self):
        """Its first characters, and how many bytes are cut."""
        try:
            sys.stdout.flush()
        except BaseException:
            pass
        size = os.fstat(self.file).st_size
        # A character has at most four bytes.
        kept = os.pread(self.file, 4 * self.bound, 0)
        os.ftruncate(self.file, 0)
        text = kept.decode("utf-8", "replace")
        shown = text[: self.bound]
        total = size + max(0, self.raw.written - self.raw.bound)
        return shown, max(0, total - len(shown.encode("utf-8", "replace"))) if total > len(kept) or len(text) > len(shown) else 0


def unnamed_file():
    import tempfile

    return os.dup(tempfile.TemporaryFile().fileno())


def run(blocks, session, output):
    outcomes = []
    for code in blocks:
        output.begin()
        outcome = session.outcome(code)
        outcome["stdout"], outcome["stdout_cut"] = output.take()
        value = outcome.get("value")
        if value is not None:
            outcome["value"] = value[: output.bound]
            outcome["value_cut"] = max(0, len(value) - output.bound)
        outcomes.append(outcome)
        if outcome["status"] != "ok":
            break
    return outcomes


def close_inherited():
    """Closes inherited descriptors: an open descriptor needs no permission."""
    own = "/proc/self/fd"
    for name in os.listdir(own if os.path.isdir(own) else "/dev/fd"):
        if int(name) > LIFELINE:
            try:
                os.close(int(name))
            except OSError:
                pass


def rules_of(hello):
    readable = [(path, confine.READ) for path in hello["readable"]]
    return [*readable, *((path, confine.WORK) for path in hello["writable"])]


def main(hello):
    """Never returns: exits when its input ends."""
    close_inherited()
    limits.offer()
    if hello["guarded"]:
        guard(hello)
    else:
        os.close(LIFELINE)
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    output = Output(hello["max_output"])
    limits.set_limits(hello["limits"])
    if hello["level"] != "unsafe":
        confine.confine(rules_of(hello), hello["owns_other_files"])
    # Like a script from here on: it may import modules that the code wrote.
    sys.path.insert(0, "")
    random.seed(hello["seed"])
    session = snippets.KINDS[hello["semantics"]]()
    home = os.getcwd()

    def reply(message):
        replies.write(json.dumps(message).encode() + b"\n")
        replies.flush()

    reply({"ready": os.getpid()})
    for line in requests:
        request = json.loads(line)
        os.chdir(home)
        outcomes = run(request["blocks"], session, output)
        reply({"id": request["id"], "outcomes": outcomes})
    os._exit(0)
