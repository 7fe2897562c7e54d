"""Calls of an environment's methods. Each gives plain data, or a failure that says where."""

import asyncio
import contextlib
import inspect
import threading

from .answers import CallFailed, Unavailable, to_answer, to_json
from .traces import place_of, place_of_thread, trace_of
from .turns import Caller, Turns

OPTIONAL = ("begin", "end", "global_post_process_and_metrics")


class Direct:
    """In this process: one call at a time unless the environment says `thread_safe = True`.

    Nothing can end a call that hangs here. Once its caller has gone, other calls fail at once (503) with its name and
    place, and so does `/health`.
    """

    def __init__(self, environment):
        if not callable(getattr(environment, "step", None)):
            raise TypeError(f"{type(environment).__name__} has no method step(message_log_batch, metadata)")
        self.environment = environment
        serial = not getattr(environment, "thread_safe", False)
        self.turns = Turns([None]) if serial else None
        self.running = {}
        self.has = [name for name in OPTIONAL if hasattr(environment, name)]
        self.end_takes_session = _takes_two(getattr(environment, "end", None))
        self.lock = threading.Lock()
        self.loop = None

    def call(self, name, *arguments, caller=None):
        self.health()
        caller = caller or Caller()
        try:
            with contextlib.nullcontext() if self.turns is None else self.turns.turn(caller), self._runs(name, caller):
                returned = getattr(self.environment, name)(*arguments)
                returned = self._awaited(returned) if inspect.isawaitable(returned) else returned
        except CallFailed:
            raise
        # `sys.exit()`, too, concerns this call alone.
        except BaseException as error:
            if _is_away(error):
                raise CallFailed(503, type(error).__name__, _text(error)) from error
            raise CallFailed(500, type(error).__name__, _text(error), trace_of(error)) from error
        try:
            return _PLAIN[name](returned)
        except (TypeError, ValueError, RecursionError) as error:
            raise CallFailed(422, "BadAnswer", str(error)) from error

    def health(self):
        held = self.turns.overdue() if self.turns else None
        if held is not None:
            raise CallFailed(503, "Hanging", str(held))

    def make_room(self):
        """There are no other processes."""

    @contextlib.contextmanager
    def _runs(self, name, caller):
        thread = threading.get_ident()
        caller.begins(name, lambda: place_of_thread(thread))
        self.running[caller] = True
        try:
            yield
        finally:
            del self.running[caller]

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


AWAY = (Unavailable, ConnectionError, TimeoutError, asyncio.TimeoutError)
# The same of libraries that have their own: of HTTP, and clients of judges.
AWAY_OF = {
    "aiohttp.ClientConnectionError",
    "anthropic.APIConnectionError",
    "httpx.TransportError",
    "openai.APIConnectionError",
    "requests.ConnectionError",
    "requests.Timeout",
    "urllib.URLError",
}
# Statuses of a server that may answer later.
AWAY_STATUS = (408, 429, 502, 503, 504, 529)


def _is_away(error):
    """Whether the error says that a service of the environment, such as a judge, does not answer now."""
    response = getattr(error, "response", None)
    for one, name in ((error, "status_code"), (response, "status_code"), (error, "status"), (error, "code")):
        if isinstance(getattr(one, name, None), int):
            return isinstance(error, Exception) and getattr(one, name) in AWAY_STATUS
    kinds = (f"{kind.__module__.partition('.')[0]}.{kind.__name__}" for kind in type(error).__mro__)
    return isinstance(error, AWAY) or any(kind in AWAY_OF for kind in kinds)


async def _wait(awaitable):
    return await awaitable


def _text(error):
    place = place_of(error)
    return str(error) if place is None else f"{error} (at {place})".strip()


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
