"""The protocol: POST /step, /begin, /end and /global_post_process_and_metrics, GET /health. Standard library only."""

import contextlib
import json
import math
import socket
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, Iterable, Optional

from .answers import CallFailed
from .bodies import MOST_BYTES, TIMES_TOGETHER, Room, read_body
from .calls import Direct
from .connections import ANSWER_S, LINGER_S, MOST, Server
from .gate import Gate
from .processes import Isolated
from .remembered import Answers, begun_by, request_of
from .turns import Caller
from .watch import Watch, write


# The seconds after which the caller waits no longer.
TIMEOUT_HEADER = "Rollout-Call-Timeout"
# Whose key it is: the id of the caller's store.
DEPLOYMENT_HEADER = "Rollout-Deployment"
# In which play: a batch that was restarted has the same keys again.
PLAY_HEADER = "Rollout-Play"


class BadRequest(Exception):
    pass


class _Service:
    """Checks what came, and remembers answers. The same key is another request if it is another deployment's, or if its
    body is another one: that of a batch which was deleted and started again, or of a deployment that does not say which.
    """

    def __init__(self, calls, max_answers):
        self.calls = calls
        self.answers = Answers(max_answers)

    def step(self, body, caller):
        logs, metadata = body.get("message_log_batch"), body.get("metadata")
        for name, value in (("message_log_batch", logs), ("metadata", metadata)):
            if not isinstance(value, list):
                raise BadRequest(f"{name}: expected a list, got {type(value).__name__}")
        if len(logs) != len(metadata):
            raise BadRequest(f"metadata: expected {len(logs)}, one per message log, got {len(metadata)}")
        for i, log in enumerate(logs):
            good = isinstance(log, list) and all(isinstance(m, dict) and "role" in m and "content" in m for m in log)
            if not good:
                raise BadRequest(f"message_log_batch.{i}: expected messages with role and content")
        request = request_of(caller.name(), [logs, metadata])
        return self.answers.once(request, caller, lambda: self.calls.call("step", logs, metadata, caller=caller))

    def begin(self, body, caller):
        """What `begin(sample)` returns is the first state; None keeps the sample's."""
        sample = {name: body.get(name) for name in ("session", "message_log", "metadata")}
        for name, kind in (("session", str), ("message_log", list), ("metadata", dict)):
            if not isinstance(sample[name], kind):
                raise BadRequest(f"{name}: expected a {kind.__name__}, got {type(sample[name]).__name__}")
        request = request_of(caller.name(), sample)
        make = lambda: self.calls.call("begin", sample, caller=caller)  # noqa: E731
        answer = self.answers.once(request, caller, make, given=sample["metadata"])
        self.answers.forget(self.answers.of(caller.name("/begin-", "/end-")))
        return answer

    def end(self, body, caller):
        """Merges the last state over what `begin` returned, if nobody has heard of that. A session that this process
        has ended is not ended again.

        A session that is still being begun, for a caller that no longer waits, is ended once it has begun.
        """
        session, metadata = body.get("session"), body.get("metadata")
        if not isinstance(session, str) or not isinstance(metadata, dict):
            raise BadRequest("expected a session and metadata")
        # It releases what a rollout holds, also for a caller that has left.
        caller = Caller(caller.key, deployment=caller.deployment)
        request = request_of(caller.name(), body)
        begun = begun_by(metadata, self.answers.of(caller.name("/end-", "/begin-")))
        state = {**begun.state, **metadata}
        more = [session] if self.calls.end_takes_session else []
        answer = self.answers.once(request, caller, lambda: self.calls.call("end", state, *more, caller=caller))
        # A later session of this name is another one.
        self.answers.forget(begun.answers)
        return answer

    def metrics(self, body, caller):
        rollouts = body.get("rollouts")
        if not isinstance(rollouts, list):
            raise BadRequest(f"rollouts: expected a list, got {type(rollouts).__name__}")
        return self.calls.call("global_post_process_and_metrics", rollouts, caller=caller)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def handle_one_request(self):
        self._within(self.server.idle_s)
        with contextlib.suppress(ConnectionError):
            return super().handle_one_request()
        self.close_connection = True

    def do_GET(self):
        self._answer(lambda: self._health() if self.path == "/health" else None)

    def do_POST(self):
        service = self.server.service
        if self.path == "/step":
            self._answer(lambda: service.step(self._body(), self._caller()))
        elif self.path in ("/begin", "/end") and self.path[1:] in service.calls.has:
            self._answer(lambda: getattr(service, self.path[1:])(self._body(), self._caller()))
        elif self.path == "/global_post_process_and_metrics" and self.path[1:] in service.calls.has:
            self._answer(lambda: service.metrics(self._body(TIMES_TOGETHER), self._caller()), absent={})
        else:
            self._answer(lambda: None)

    def _answer(self, make, absent=None):
        self.share = self.server.room.share()
        self.is_read = not ("Content-Length" in self.headers or "Transfer-Encoding" in self.headers)
        try:
            self.server.gate.check(self.headers)
            answer = make()
            answer = absent if answer is None else answer
            if answer is None:
                self._raw(1)
                return self._send(404, _error("NotFound", f"there is no {self.command} {self.path}"))
            self._send(200, json.dumps(answer, allow_nan=False))
        except (BadRequest, RecursionError) as error:
            self._send(400, _error("BadRequest", str(error)))
        except CallFailed as error:
            self._log(error)
            self._send(error.status, _error(error.kind, error.message, error.trace))
        finally:
            self.share.give()

    def _health(self):
        self.server.service.calls.health()
        running = self.server.watch.long()
        return {"status": "ok", **({"running": running} if running else {})}

    def _log(self, error):
        if not self.server.logs_failures:
            return
        key = self.headers.get("Idempotency-Key")
        lines = [f"{self.command} {self.path} {key!r}: {error.status} {error.kind}: {error.message}", error.trace]
        write("\n".join(line for line in lines if line))

    def _within(self, seconds):
        self.server.within(self.connection, seconds)

    def _raw(self, times):
        self._within(self.server.body_s)
        body = read_body(self.rfile, self.headers, most=self.server.max_body * times, share=self.share)
        self.is_read = True
        self._within(None)
        return body

    def _body(self, times=1):
        try:
            body = json.loads(self._raw(times))
        except (ValueError, RecursionError) as error:
            raise BadRequest(f"(body): expected JSON, got {error}") from error
        if not isinstance(body, dict):
            raise BadRequest(f"(body): expected an object, got {type(body).__name__}")
        return body

    def _caller(self):
        text = self.headers.get(TIMEOUT_HEADER, "inf")
        try:
            seconds = float(text)
        except ValueError:
            seconds = math.nan
        if not seconds > 0:
            raise BadRequest(f"{TIMEOUT_HEADER}: expected seconds, got {text!r}")
        key, deployment, play = (self.headers.get(name) for name in ("Idempotency-Key", DEPLOYMENT_HEADER, PLAY_HEADER))
        return Caller(key, seconds, deployment, play)

    def _send(self, status, text):
        data = text.encode()
        self._within(ANSWER_S)
        try:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            # A body that was not read to its end is not the next request.
            if not self.is_read:
                self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(data)
            if not self.is_read:
                self._linger()
        except OSError:
            self.close_connection = True

    def _linger(self):
        """A connection that is closed while something comes loses the answer before it."""
        self.close_connection = True
        self._within(LINGER_S)
        self.connection.shutdown(socket.SHUT_WR)
        while self.rfile.read1(2**16):
            pass

    def log_message(self, *arguments):
        pass


def _error(kind, message, trace=None):
    return json.dumps({"error": {"type": kind, "message": message, **({} if trace is None else {"trace": trace})}})


def create_server(
    environment: Any,
    *,
    host: str = "127.0.0.1",
    port: int = 9000,
    max_answers: int = 4096,
    token: Optional[str] = None,
    allow_hosts: Iterable[str] = (),
    max_body: int = MOST_BYTES,
    max_connections: int = MOST,
    logs_failures: bool = True,
) -> HTTPServer:
    """A server of kind ``http``, which listens. ``serve_forever()`` runs it, ``shutdown()`` ends it.

    environment: an ``Isolated``; or an object with ``step``, which is called in this process, where nothing can end a
      call that hangs
    host: address to listen on; with one that others reach, give a token
    port: 0: any free one (``server_address`` has it)
    max_answers: how many answers are kept for calls that are repeated
    token: every request has to bring it (``Authorization: Bearer``); None: its ``Host`` has to be an address, a name of
      this machine, or one of ``allow_hosts``
    allow_hosts: further names
    max_body: bytes of one request
    max_connections: at once
    logs_failures: whether failures that are answered go to standard error, too

    Returns the server. Raises ``OSError`` if the port is taken.

        create_server(Isolated("guess:Guess"), port=9000).serve_forever()

    docs/environment-kinds.md has the protocol.
    """
    calls = environment if isinstance(environment, Isolated) else Direct(environment)
    server = Server((host, port), _Handler, max_connections)
    server.gate = Gate(host, token, allow_hosts)
    server.max_body = max_body
    server.logs_failures = logs_failures
    server.room = Room(max_body * TIMES_TOGETHER)
    server.service = _Service(calls, max_answers)
    server.watch = Watch(calls)
    return server
