"""`python -m rollout_environment module:Class --port 9000 [--host 127.0.0.1] [--token-env NAME] [--timeout 240] [--processes 1]`"""

import argparse
import functools
import sys

from .answers import CallFailed
from .bodies import MOST_BYTES, TIMES_TOGETHER
from .connections import MOST
from .processes import TIMEOUT_S, Isolated
from .server import create_server
from .serving import add_options, serve, token_of
from .template import Copies


def main():
    parser = argparse.ArgumentParser(prog="python -m rollout_environment", description=__doc__)
    parser.add_argument("environment", help="module:name of a class or a function, in the current folder or installed")
    add_options(parser, port=9000)
    parser.add_argument("--timeout", type=float, help=f"seconds for one call (default the class's timeout, else {TIMEOUT_S})")
    parser.add_argument("--processes", type=int, help="processes of the environment (default the class's processes, else 1)")
    parser.add_argument("--max-body", metavar="MIB", type=int, default=MOST_BYTES >> 20, help=f"size limit of one request (default {MOST_BYTES >> 20}); {TIMES_TOGETHER} times as much for metrics, and for all requests together")
    parser.add_argument("--max-connections", metavar="N", type=int, default=MOST, help=f"connections at once (default {MOST})")
    # For durable_rollouts.local: the environment is what the copies have, and the server ends with the process.
    parser.add_argument("--copies", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--parent", type=int, help=argparse.SUPPRESS)
    # For temporal-rollout step, which shows the failures that it is answered.
    parser.add_argument("--quiet", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    token = token_of(arguments, what="ask")
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
    create = functools.partial(
        create_server,
        environment,
        token=token,
        max_body=arguments.max_body << 20,
        max_connections=arguments.max_connections,
        logs_failures=not arguments.quiet,
    )
    try:
        serve(create, arguments.environment, arguments, parent=arguments.parent)
    finally:
        environment.close()


if __name__ == "__main__":
    main()
