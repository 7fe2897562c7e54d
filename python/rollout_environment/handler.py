"""A request and its answer: JSON both ways, bounded, and only for whoever may ask."""

import contextlib
import json
import math
import socket
from http.server import BaseHTTPRequestHandler

from .answers import CallFailed
from .bodies import TIMES_TOGETHER, Room, read_body
from .connections import ANSWER_S, LINGER_S, Server
from .gate import Gate
from .turns import Caller
from .watch import write

# The seconds after which the caller waits no longer.
TIMEOUT_HEADER = "Rollout-Call-Timeout"
# Whose key it is: the id of the caller's store.
DEPLOYMENT_HEADER = "Rollout-Deployment"
# In which play: a batch that was restarted has the same keys again.
PLAY_HEADER = "Rollout-Play"


class BadRequest(Exception):
    pass


class Handler(BaseHTTPRequestHandler):
    """Its server has a gate, room for bodies, and limits of them."""

    protocol_version = "HTTP/1.1"

    def handle_one_request(self):
        self._within(self.server.idle_s)
        with contextlib.suppress(ConnectionError):
            return super().handle_one_request()
        self.close_connection = True

    def answer(self, make, absent=None):
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

    def body(self, times=1):
        try:
            body = json.loads(self._raw(times))
        except (ValueError, RecursionError) as error:
            raise BadRequest(f"(body): expected JSON, got {error}") from error
        if not isinstance(body, dict):
            raise BadRequest(f"(body): expected an object, got {type(body).__name__}")
        return body

    def caller(self):
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


def create(handler, address, *, token, allow_hosts, max_body, max_connections, logs_failures):
    """A server that listens. Its caller adds what the handler serves, and `watch`."""
    server = Server(address, handler, max_connections)
    server.gate = Gate(address[0], token, allow_hosts)
    server.max_body = max_body
    server.logs_failures = logs_failures
    server.room = Room(max_body * TIMES_TOGETHER)
    return server
