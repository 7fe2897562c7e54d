"""What the commands that serve have in common: where they listen, who may ask, and how they end."""

import os
import signal
import threading
import time

from .connections import LOOK_S
from .gate import is_loopback, take_token
from .watch import write


def add_options(parser, *, port):
    """``port`` is the default."""
    parser.add_argument("--port", type=int, default=port, help=f"port to listen on, 0: any free one (default {port})")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1)")
    parser.add_argument("--token-env", metavar="NAME", help="the environment variable with the token that each request must have")
    parser.add_argument("--allow-host", metavar="NAME", action="append", default=[], help="a host name of this server that requests without a token may use")


def token_of(arguments, *, what):
    """The token. Without one, warns that anybody who reaches the server may do `what`."""
    try:
        token = None if arguments.token_env is None else take_token(arguments.token_env)
    except ValueError as error:
        raise SystemExit(str(error)) from None
    if token is None and not is_loopback(arguments.host):
        write(f"{arguments.host} is not this machine alone, and anybody who reaches it may {what}: set --token-env NAME")
    return token


def serve(create, name, arguments, *, parent=None):
    """Serves what `create` returns for an address and who may ask, until a signal or the end of the process `parent`.
    Returns the closed server.
    """
    try:
        server = create(host=arguments.host, port=arguments.port, allow_hosts=arguments.allow_host)
    except (OSError, OverflowError) as error:
        raise SystemExit(f"cannot listen on {arguments.host}:{arguments.port}: {error}") from None

    def end(*_):
        threading.Thread(target=server.shutdown, daemon=True).start()

    if parent is not None:
        threading.Thread(target=_follow, args=(parent, end), daemon=True).start()
    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    host, port = server.server_address[:2]
    # A function may be called what its terminal cannot write.
    print(f"{name} on http://{host}:{port}".encode("ascii", "backslashreplace").decode(), flush=True)
    try:
        server.serve_forever(poll_interval=0.1)
    finally:
        server.server_close()
    return server


def _follow(parent, end):
    """Not by a pipe: the parent's own children would hold it, too."""
    while os.getppid() == parent:
        time.sleep(LOOK_S)
    end()
