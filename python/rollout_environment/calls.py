"""Calls of an environment's methods. Each gives plain data, or a failure that says where."""

import asyncio
import contextlib
import inspect
import threading

from .answers import Unavailable, to_answer, to_json
from .traces import place_of, trace_of

OPTIONAL = ("begin", "end", "global_post_process_and_metrics")


class CallFailed(Exception):
    """The failure as it is answered. `status`: 500 it raised, 503 it cannot answer now, 422 it returned a malformed
    answer.
    """

    def __init__(self, status, kind, message, trace=None):
        super().__init__(status, kind, message, trace)
        self.status, self.kind, self.message, self.trace = status, kind, message, trace


class Direct:
    """In this process: one call at a time unless the environment says `thread_safe = True`."""

    def __init__(self, environment):
        if not callable(getattr(environment, "step", None)):
            raise TypeError(f"{type(environment).__name__} has no method step(message_log_batch, metadata)")
        self.environment = environment
        serial = not getattr(environment, "thread_safe", False)
        self.turn = threading.Lock() if serial else contextlib.nullcontext()
        self.has = [name for name in OPTIONAL if hasattr(environment, name)]
        self.end_takes_session = _takes_two(getattr(environment, "end", None))
        self.lock = threading.Lock()
        self.loop = None

    def call(self, name, *arguments):
        try:
            with self.turn:
                returned = getattr(self.environment, name)(*arguments)
                returned = self._awaited(returned) if inspect.isawaitable(returned) else returned
        except CallFailed:
            raise
        except (Unavailable, ConnectionError, TimeoutError, asyncio.TimeoutError) as error:
            raise CallFailed(503, type(error).__name__, str(error)) from error
        except Exception as error:
            raise CallFailed(500, type(error).__name__, _text(error), trace_of(error)) from error
        try:
            return _PLAIN[name](returned)
        except (TypeError, ValueError, RecursionError) as error:
            raise CallFailed(422, "BadAnswer", str(error)) from error

    def health(self):
        """It is this process, which answers."""

    def close(self):
        """Holds nothing."""

    def _awaited(self, awaitable):
        """One loop for all calls: what an environment keeps (a session, a pool) belongs to the loop in which it was
        created.
        """
        with self.lock:
            if self.loop is None:
                self.loop = asyncio.new_event_loop()
                threading.Thread(target=self.loop.run_forever, daemon=True).start()
        return asyncio.run_coroutine_threadsafe(_wait(awaitable), self.loop).result()


async def _wait(awaitable):
    return await awaitable


def _text(error):
    place = place_of(error)
    return str(error) if place is None else f"{error} (at {place})"


def _first_state(returned):
    state = to_json(returned)
    if state is not None and not isinstance(state, dict):
        raise TypeError(f"begin: expected a dict or None, got {type(returned).__name__}")
    return {} if state is None else {"metadata": state}


_PLAIN = {
    "step": to_answer,
    "begin": _first_state,
    "end": lambda _: {},
    # Upstream returns (batch, metrics); the metrics alone are accepted, too.
    "global_post_process_and_metrics": lambda result: to_json(result[1] if isinstance(result, tuple) else result),
}


def _takes_two(method):
    try:
        inspect.signature(method).bind(None, None)
    except (TypeError, ValueError):
        return False
    return True
