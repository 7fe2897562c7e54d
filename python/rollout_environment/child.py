"""The process that an environment runs in, and its guard."""

import faulthandler
import importlib
import os
import signal
import sys
import threading

from .answers import CallFailed
from .calls import Direct
from .forms import check_reward, is_reward
from .functions import OfFunction
from .guard import guarded
from .traces import trace_of


def load(name):
    """The environment of `module:name`, or of an object: a class is called without arguments, as is a function that makes
    an environment; a function of a reply and a sample is one itself, and so is one of TRL's or verifiers' form; another
    object is taken as it is.
    """
    found = imported(name) if isinstance(name, str) else name
    check_reward(found)
    if is_reward(found):
        return OfFunction(found)
    return found() if isinstance(found, type) or (callable(found) and not hasattr(found, "step")) else found


def imported(name):
    module, _, attribute = name.partition(":")
    if not attribute:
        raise ValueError(f"expected module:name, a class or a function, got {name}")
    sys.path.insert(0, os.getcwd())
    return getattr(importlib.import_module(module), attribute)


def run(name, connection, lifeline, dump_path):
    """Answers calls until the server ends, in any way. What the environment prints goes to the server's log."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Before there is a second thread.
    guarded(lifeline=lifeline, not_here=(connection,))
    os.dup2(2, 1)
    with open(dump_path, "w") as dump:
        faulthandler.enable(dump)
        if hasattr(faulthandler, "register"):
            faulthandler.register(signal.SIGUSR1, dump)
        try:
            environment = load(name)
            calls = Direct(environment)
        except BaseException as error:
            connection.send(("failed", f"{type(error).__name__}: {error}", trace_of(error)))
            return
        said = {key: getattr(environment, key, None) for key in ("thread_safe", "processes", "timeout")}
        connection.send(("ready", calls.has, calls.end_takes_session, said))
        _serve(calls, connection, parallel=bool(said["thread_safe"]))


def _serve(calls, connection, parallel):
    sending = threading.Lock()

    def answer(number, name, arguments):
        try:
            outcome = (number, "ok", calls.call(name, *arguments))
        except CallFailed as error:
            outcome = (number, "error", error.args)
        with sending:
            connection.send(outcome)

    while True:
        try:
            asked = connection.recv()
        except (EOFError, OSError):
            os._exit(0)
        if parallel:
            threading.Thread(target=answer, args=asked, daemon=True).start()
        else:
            answer(*asked)
