"""`python -m rollout_environment module:Class --port 9000 [--host 127.0.0.1] [--timeout 240] [--processes 1]`"""

import argparse
import signal
import sys
import threading

from .answers import CallFailed
from .processes import TIMEOUT_S, Isolated
from .server import create_server


def main():
    parser = argparse.ArgumentParser(prog="python -m rollout_environment", description=__doc__)
    parser.add_argument("environment", help="module:Class, in the current folder or installed")
    parser.add_argument("--port", type=int, default=9000, help="0: any free one (default 9000)")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--timeout", type=float, help=f"seconds for one call (default the class's timeout, else {TIMEOUT_S})")
    parser.add_argument("--processes", type=int, help="of the environment (default the class's processes, else 1)")
    arguments = parser.parse_args()
    try:
        environment = Isolated(arguments.environment, timeout=arguments.timeout, processes=arguments.processes)
    except CallFailed as error:
        print(error.trace or "", file=sys.stderr)
        raise SystemExit(f"cannot load {arguments.environment}: {error.message}") from None
    try:
        _serve(environment, arguments)
    finally:
        environment.close()


def _serve(environment, arguments):
    try:
        server = create_server(environment, host=arguments.host, port=arguments.port)
    except (OSError, OverflowError) as error:
        raise SystemExit(f"cannot listen on {arguments.host}:{arguments.port}: {error}") from None

    def end(*_):
        threading.Thread(target=server.shutdown, daemon=True).start()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    host, port = server.server_address[:2]
    print(f"{arguments.environment} on http://{host}:{port}", flush=True)
    server.serve_forever(poll_interval=0.1)
    server.server_close()


if __name__ == "__main__":
    main()
