"""The protocol: PUT, GET and DELETE /runs/<rollout>.<life>, GET /health. Standard library only."""

import time
from http.server import HTTPServer
from typing import Iterable, Optional
from urllib.parse import parse_qs, unquote, urlsplit

from ..connections import MOST
from ..handler import BadRequest, Handler, create
from .runs import Runs

MOST_BODY = 16 * 2**20
MOST_RUNS = 64
# How long an answer waits for the end of a run, at most.
LONGEST_WAIT_S = 60
MOST_NAME = 1000

_FIELDS = (("base_url", str, None), ("key", str, None), ("prompt", str, ""), ("message_log", list, []), ("metadata", dict, {}))


class _Handler(Handler):
    def do_PUT(self):
        self.answer(lambda: self._of_run(self._begin))

    def do_GET(self):
        if self.path == "/health":
            return self.answer(lambda: {"status": "ok"})
        self.answer(lambda: self._of_run(self._wait))

    def do_DELETE(self):
        self.answer(lambda: self._of_run(self._delete))

    def _of_run(self, act):
        """None: it is another path."""
        path = urlsplit(self.path).path
        name = unquote(path.removeprefix("/runs/"))
        if not path.startswith("/runs/") or not name:
            return None
        if len(name) > MOST_NAME or not name.isprintable():
            raise BadRequest(f"/runs/…: expected a name of at most {MOST_NAME} printable characters, got {name[:80]!r}")
        return act(name)

    def _begin(self, name):
        body = self.body()
        given = {field: body.get(field, default) for field, _, default in _FIELDS}
        for field, kind, _ in _FIELDS:
            if not isinstance(given[field], kind):
                raise BadRequest(f"{field}: expected a {kind.__name__}, got {type(given[field]).__name__}")
        if not given["base_url"].startswith(("http://", "https://")):
            raise BadRequest(f"base_url: expected http://… or https://…, got {given['base_url'][:80]!r}")
        if not given["key"]:
            raise BadRequest("key: expected the key of this life, got nothing")
        return self.server.runs.begin(name, given).answer

    def _wait(self, name):
        seconds = self._seconds()
        run = self.server.runs.find(name)
        self._within(None)
        run.asked = time.monotonic() + seconds
        run.ended.wait(seconds)
        return run.answer

    def _seconds(self):
        text = parse_qs(urlsplit(self.path).query).get("wait", ["0"])[0]
        if not (text.isascii() and text.isdigit() and int(text) <= LONGEST_WAIT_S):
            raise BadRequest(f"wait: expected whole seconds, {LONGEST_WAIT_S} at most, got {text[:80]!r}")
        return int(text)

    def _delete(self, name):
        self.server.runs.delete(name)
        return {"state": "deleted"}


def create_agent_server(
    program: str,
    *,
    host: str = "127.0.0.1",
    port: int = 9100,
    runs: int = MOST_RUNS,
    token: Optional[str] = None,
    allow_hosts: Iterable[str] = (),
    logs_failures: bool = True,
) -> HTTPServer:
    """A server of agents, which listens. ``serve_forever()`` runs it, ``shutdown()`` and ``runs.close()`` end it.

    program: ``module:function``, called with a ``Task`` in a process of its own for each run
    host: address to listen on; with one that others reach, give a token
    port: 0: any free one (``server_address`` has it)
    runs: how many at once
    token: every request has to bring it (``Authorization: Bearer``); None: its ``Host`` has to be an address, a name of
      this machine, or one of ``allow_hosts``
    allow_hosts: further names
    logs_failures: whether requests that are refused go to standard error, too

    Returns the server. Raises ``OSError`` if the port is taken.

        create_agent_server("solver:run", port=9100).serve_forever()
    """
    server = create(
        _Handler,
        (host, port),
        token=token,
        allow_hosts=allow_hosts,
        max_body=MOST_BODY,
        max_connections=max(MOST, 2 * runs),
        logs_failures=logs_failures,
    )
    server.runs = server.watch = Runs(program, runs)
    return server
