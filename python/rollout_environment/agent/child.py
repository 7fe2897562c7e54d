"""The process of one run, and its guard."""

import asyncio
import inspect
import json
import os
import signal
import sys

from ..answers import to_json
from ..child import imported
from ..guard import guarded
from ..traces import trace_of
from .task import MOST_OUTCOME, outcome_of, variables_of


def run(name, task, outcome, output, lifeline):
    """Calls `module:name` with the task. What it prints goes to the server, and what it returns through `outcome`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for stream in (1, 2):
        os.dup2(output.fileno(), stream)
    # Before there is a second thread.
    guarded(lifeline=lifeline, not_here=(outcome, output))
    output.close()
    os.environ.update(variables_of(task))
    sys.stdout, sys.stderr = (open(stream, "w", buffering=1, closefd=False, errors="backslashreplace") for stream in (1, 2))
    try:
        text = json.dumps(to_json(outcome_of(_returned(imported(name), task)), "the returned value"), allow_nan=False)
        if len(text) > MOST_OUTCOME:
            raise ValueError(f"the returned value: expected at most {MOST_OUTCOME} bytes of JSON, got {len(text)}")
    except Exception as error:
        print(trace_of(error), file=sys.stderr)
        sys.exit(1)
    outcome.send_bytes(text.encode())


def _returned(program, task):
    returned = program(task)
    return asyncio.run(_awaited(returned)) if inspect.isawaitable(returned) else returned


async def _awaited(returned):
    return await returned
