"""`python -m rollout_environment.agent module:function --port 9100 [--host 127.0.0.1] [--token-env NAME] [--runs 64]`"""

import argparse
import signal
import sys
import threading

from ..child import imported
from ..gate import is_loopback, take_token
from ..traces import trace_of
from ..watch import write
from .server import MOST_RUNS, create_agent_server


def main():
    parser = argparse.ArgumentParser(prog="python -m rollout_environment.agent", description=__doc__)
    parser.add_argument("program", help="module:function, in the current folder or installed; it is called with a Task")
    parser.add_argument("--port", type=int, default=9100, help="0: any free one (default 9100)")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--runs", type=int, default=MOST_RUNS, help=f"at once (default {MOST_RUNS})")
    parser.add_argument("--token-env", metavar="NAME", help="the variable that holds the token that every request has to bring")
    parser.add_argument("--allow-host", metavar="NAME", action="append", default=[], help="a name that requests without a token may use for this server")
    arguments = parser.parse_args()
    try:
        token = None if arguments.token_env is None else take_token(arguments.token_env)
    except ValueError as error:
        raise SystemExit(str(error)) from None
    if token is None and not is_loopback(arguments.host):
        write(f"{arguments.host} is not this machine alone, and whoever reaches it may start runs: set --token-env NAME")
    _check(arguments.program)
    try:
        server = create_agent_server(
            arguments.program,
            host=arguments.host,
            port=arguments.port,
            runs=arguments.runs,
            token=token,
            allow_hosts=arguments.allow_host,
        )
    except (OSError, OverflowError) as error:
        raise SystemExit(f"cannot listen on {arguments.host}:{arguments.port}: {error}") from None
    _serve(server, arguments.program)


def _check(program):
    """Says at once what each run would fail with."""
    try:
        if not callable(imported(program)):
            raise TypeError("expected a function of a Task")
    except Exception as error:
        print(trace_of(error), file=sys.stderr)
        raise SystemExit(f"cannot load {program}: {error}") from None


def _serve(server, program):
    def end(*_):
        threading.Thread(target=server.shutdown, daemon=True).start()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    host, port = server.server_address[:2]
    print(f"{program} on http://{host}:{port}", flush=True)
    try:
        server.serve_forever(poll_interval=0.1)
    finally:
        server.server_close()
        server.runs.close()


if __name__ == "__main__":
    main()
