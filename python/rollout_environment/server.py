"""The protocol: POST /step, /begin, /end and /global_post_process_and_metrics, GET /health. Standard library only."""

from http.server import HTTPServer
from typing import Any, Iterable, Optional

from .bodies import MOST_BYTES, TIMES_TOGETHER
from .calls import Direct
from .connections import MOST
from .handler import BadRequest, Handler, create
from .processes import Isolated
from .remembered import Answers, begun_by, request_of
from .turns import Caller
from .watch import Watch


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


class _Handler(Handler):
    def do_GET(self):
        self.answer(lambda: self._health() if self.path == "/health" else None)

    def do_POST(self):
        service = self.server.service
        if self.path == "/step":
            self.answer(lambda: service.step(self.body(), self.caller()))
        elif self.path in ("/begin", "/end") and self.path[1:] in service.calls.has:
            self.answer(lambda: getattr(service, self.path[1:])(self.body(), self.caller()))
        elif self.path == "/global_post_process_and_metrics" and self.path[1:] in service.calls.has:
            self.answer(lambda: service.metrics(self.body(TIMES_TOGETHER), self.caller()), absent={})
        else:
            self.answer(lambda: None)

    def _health(self):
        self.server.service.calls.health()
        running = self.server.watch.long()
        return {"status": "ok", **({"running": running} if running else {})}


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
    server = create(
        _Handler,
        (host, port),
        token=token,
        allow_hosts=allow_hosts,
        max_body=max_body,
        max_connections=max_connections,
        logs_failures=logs_failures,
    )
    server.service = _Service(calls, max_answers)
    server.watch = Watch(calls)
    return server
