"""``python -m durable_rollouts``: what is installed, what it can reach, and what to type next."""

from __future__ import annotations

import asyncio
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import List, Optional

from . import __version__, connection
from .stack import STATE, LocalError, find_command, running

LOOK_S = 5.0
USED = ["temporalio", "numpy", "typing-extensions"]
OPTIONAL = ["torch", "tqdm", "pyarrow"]


def main() -> None:
    home = Path.cwd()
    command = _command()
    stack = running(home)
    print(f"durable_rollouts {__version__}, in {Path(__file__).parent}")
    print(f"  Python           {platform.python_version()}")
    print(f"  needs            {', '.join(_versions(USED))}")
    print(f"  uses, if there   {', '.join(_versions(OPTIONAL))}")
    print(f"  temporal-rollout {command[1]}")
    print(f"  stack here       {'none' if stack is None else f'process {stack.pid}, Web UI {stack.ui_url}, rollouts {stack.viewer_url}'}")
    print(f"  Temporal server  {asyncio.run(_server())}")
    print(f"  results here     {_results(home / STATE / 'trajectories')}")
    print("Next:")
    for line in _next(command[0], is_running=stack is not None):
        print(f"  {line}")


def _versions(names: List[str]) -> List[str]:
    return [f"{name} {_version(name) or '(not installed)'}" for name in names]


def _version(name: str) -> Optional[str]:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _command() -> "tuple[Optional[str], str]":
    """The command that starts a stack, or None; and a line about ``temporal-rollout``."""
    try:
        run, prepare = find_command()
    except LocalError as error:
        return None, f"none: {error}"
    if prepare is not None:
        return f"npm start --prefix {Path(prepare[-1]).parents[1]}", f"{run[-1]}, of a clone"
    try:
        said = subprocess.run([*run, "--help"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, f"{run[0]}, which does not run: {error}"
    if said.returncode != 0:
        return None, f"{run[0]}, which does not run: {said.stderr.strip()[-200:]}"
    return f"{run[0]} up", run[0]


async def _server() -> str:
    try:
        client, _ = await asyncio.wait_for(connection.connect(None, None, None), LOOK_S)
    except asyncio.TimeoutError:
        return f"no answer within {LOOK_S:.0f} s"
    except Exception as error:  # Any problem is the answer.
        return str(error)
    return f"{client.service_client.config.target_host}, namespace {client.namespace}"


def _results(root: Path) -> str:
    return str(root) if root.is_dir() else f"none: {root} is not there"


def _next(start: Optional[str], *, is_running: bool) -> List[str]:
    first = (
        f"{'durable_rollouts.Client.connect()':<42}  # in Python: the stack that runs here"
        if is_running
        else f"{start or 'npx durable-rollouts up':<42}  # a stack on this machine, and its first batch"
    )
    return [
        first,
        f"{'help(durable_rollouts.local)':<42}  # in Python: the stack from a program, with your own rewards",
        f"{'help(durable_rollouts.Client)':<42}  # in Python: batches, streams, rows",
    ]


if __name__ == "__main__":
    main()
