"""`python -m rollout_environment module:Class --port 9000 [--host 127.0.0.1] [--token-env NAME] [--timeout 240] [--processes 1]`"""

import argparse
import os
import signal
import sys
import threading
import time

from .answers import CallFailed
from .bodies import MOST_BYTES, TIMES_TOGETHER
from .connections import LOOK_S, MOST
from .gate import is_loopback, take_token
from .processes import TIMEOUT_S, Isolated
from .server import create_server
from .template import Copies
from .watch import write


def main():
    parser = argparse.ArgumentParser(prog="python -m rollout_environment", description=__doc__)
    parser.add_argument("environment", help="module:name of a class or a function, in the current folder or installed")
    parser.add_argument("--port", type=int, default=9000, help="0: any free one (default 9000)")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--timeout", type=float, help=f"seconds for one call (default the class's timeout, else {TIMEOUT_S})")
    parser.add_argument("--processes", type=int, help="of the environment (default the class's processes, else 1)")
    parser.add_argument("--token-env", metavar="NAME", help="the variable that holds the token that every request has to bring")
    parser.add_argument("--allow-host", metavar="NAME", action="append", default=[], help="a name that requests without a token may use for this server")
    parser.add_argument("--max-body", metavar="MIB", type=int, default=MOST_BYTES >> 20, help=f"of one request (default {MOST_BYTES >> 20}); metrics and all together: {TIMES_TOGETHER} times as much")
    parser.add_argument("--max-connections", metavar="N", type=int, default=MOST, help=f"at once (default {MOST})")
    # For durable_rollouts.local: the environment is what the copies have, and the server ends with the process.
    parser.add_argument("--copies", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--parent", type=int, help=argparse.SUPPRESS)
    # For temporal-rollout step, which shows the failures that it is answered.
    parser.add_argument("--quiet", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    try:
        token = None if arguments.token_env is None else take_token(arguments.token_env)
    except ValueError as error:
        raise SystemExit(str(error)) from None
    if token is None and not is_loopback(arguments.host):
        write(f"{arguments.host} is not this machine alone, and whoever reaches it may ask: set --token-env NAME")
    try:
        environment = Isolated(
            arguments.environment,
            timeout=arguments.timeout,
            processes=arguments.processes,
            copies=None if arguments.copies is None else Copies(arguments.copies),
        )
    except CallFailed as error:
        print(error.trace or "", file=sys.stderr)
        raise SystemExit(f"cannot load {arguments.environment}: {error.message}") from None
    try:
        _serve(environment, arguments, token)
    finally:
        environment.close()


def _serve(environment, arguments, token):
    try:
        server = create_server(
            environment,
            host=arguments.host,
            port=arguments.port,
            token=token,
            allow_hosts=arguments.allow_host,
            max_body=arguments.max_body << 20,
            max_connections=arguments.max_connections,
            logs_failures=not arguments.quiet,
        )
    except (OSError, OverflowError) as error:
        raise SystemExit(f"cannot listen on {arguments.host}:{arguments.port}: {error}") from None

    def end(*_):
        threading.Thread(target=server.shutdown, daemon=True).start()

    if arguments.parent is not None:
        threading.Thread(target=_follow, args=(arguments.parent, end), daemon=True).start()
    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    host, port = server.server_address[:2]
    print(f"{arguments.environment} on http://{host}:{port}", flush=True)
    server.serve_forever(poll_interval=0.1)
    server.server_close()


def _follow(parent, end):
    """Not by a pipe: the parent's own children would hold it, too."""
    while os.getppid() == parent:
        time.sleep(LOOK_S)
    end()


if __name__ == "__main__":
    main()
