"""Connections: how many there are, and how long each may take for a request."""

import contextlib
import resource
import socket
import threading
import time
from http.server import ThreadingHTTPServer

MOST = 1000
# How many of the files that this process may have open are for what is no connection.
SPARE_FILES = 64
# How long one may take until its next request has come, its body not included. Workers close theirs earlier.
IDLE_S = 75
# How long a body may take, and an answer until it is read.
BODY_S = 300
ANSWER_S = 120
# How long what else is sent is read by nobody, so that the answer before it arrives.
LINGER_S = 2
# How often connections and running calls are looked at.
LOOK_S = 0.5

_FULL = b'{"error": {"type": "Busy", "message": "expected at most %d connections, got more"}}'
_HEAD = b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"


class Server(ThreadingHTTPServer):
    """Each connection has a thread."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, address, handler, most):
        self.most = min(most, max(1, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - SPARE_FILES))
        self.idle_s, self.body_s = IDLE_S, BODY_S
        # When each is cut; None: a call runs for it.
        self.until = {}
        super().__init__(address, handler)

    def process_request(self, request, client_address):
        if len(self.until) < self.most:
            self.within(request, self.idle_s)
            super().process_request(request, client_address)
            return
        body = _FULL % self.most
        with contextlib.suppress(OSError):
            request.setblocking(False)
            request.send(_HEAD % len(body) + body)
        self.shutdown_request(request)

    def shutdown_request(self, request):
        self.until.pop(request, None)
        super().shutdown_request(request)

    def within(self, request, seconds):
        self.until[request] = None if seconds is None else time.monotonic() + seconds

    def serve_forever(self, poll_interval=0.5):
        over = threading.Event()
        threading.Thread(target=self._look, args=(over,), daemon=True).start()
        try:
            super().serve_forever(poll_interval)
        finally:
            over.set()

    def _look(self, over):
        while not over.wait(LOOK_S):
            self.watch.look()
            now = time.monotonic()
            for request, until in list(self.until.items()):
                if until is not None and until < now:
                    # Wakes its thread, which closes it.
                    with contextlib.suppress(OSError):
                        request.shutdown(socket.SHUT_RDWR)
