"""`python -m rollout_environment.agent module:function --port 9100 [--host 127.0.0.1] [--token-env NAME] [--runs 64]`"""

import argparse
import functools
import sys

from ..child import imported
from ..serving import add_options, serve, token_of
from ..traces import trace_of
from .server import MOST_RUNS, create_agent_server


def main():
    parser = argparse.ArgumentParser(prog="python -m rollout_environment.agent", description=__doc__)
    parser.add_argument("program", help="module:function, in the current folder or installed; it is called with a Task")
    add_options(parser, port=9100)
    parser.add_argument("--runs", type=int, default=MOST_RUNS, help=f"programs at once (default {MOST_RUNS})")
    arguments = parser.parse_args()
    token = token_of(arguments, what="start runs")
    _check(arguments.program)
    create = functools.partial(create_agent_server, arguments.program, runs=arguments.runs, token=token)
    # However else this process ends, its runs end with it.
    serve(create, arguments.program, arguments).runs.close()


def _check(program):
    """Says at once what each run would fail with."""
    try:
        if not callable(imported(program)):
            raise TypeError("expected a function of a Task")
    except Exception as error:
        print(trace_of(error), file=sys.stderr)
        raise SystemExit(f"cannot load {program}: {error}") from None


if __name__ == "__main__":
    main()
