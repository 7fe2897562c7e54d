"""`python -m rollout_environment module:Class --port 9000 [--host 127.0.0.1]`"""

import argparse
import importlib
import os
import signal
import sys
import threading

from .server import create_server


def load(name):
    """`module:Class` is called without arguments; `module:object` is taken as it is."""
    module, _, attribute = name.partition(":")
    if not attribute:
        raise SystemExit(f"expected module:Class, got {name}")
    sys.path.insert(0, os.getcwd())
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise SystemExit(f"cannot load {name}: {error}") from error
    made = found() if callable(found) and not hasattr(found, "step") or isinstance(found, type) else found
    return made


def main():
    parser = argparse.ArgumentParser(prog="python -m rollout_environment", description=__doc__)
    parser.add_argument("environment", help="module:Class, in the current folder or installed")
    parser.add_argument("--port", type=int, default=9000, help="0: any free one (default 9000)")
    parser.add_argument("--host", default="127.0.0.1")
    arguments = parser.parse_args()
    server = create_server(load(arguments.environment), host=arguments.host, port=arguments.port)

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
