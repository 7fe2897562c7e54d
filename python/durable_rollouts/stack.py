"""The stack of one machine: how its command is found, started or joined, and left. ``temporal-rollout up`` does the rest."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import sysconfig
import time
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional
from urllib.parse import unquote, urlsplit

LOOK_S = 0.1
QUIET_S = 5.0
"""A start that takes longer shows what it does."""
ENDS_WITHIN_S = 40.0
LAST_LINES = 12
MOST_LOG_BYTES = 64 * 2**20
STATE = ".rollouts"
"""What a folder's stack keeps in it: its database, its results, its logs, and who uses it."""


class LocalError(RuntimeError):
    """The stack of one machine cannot be started, or an environment cannot be served; the message says what to do."""


class Command(NamedTuple):
    run: List[str]
    """``temporal-rollout``."""
    prepare: Optional[List[str]]
    """What has to run before it in a clone: it installs and builds what is missing."""


def find_command() -> Command:
    """In the clone that this package is in, or was installed from; else where pip or npm put ``temporal-rollout``, or PATH."""
    for clone in (Path(__file__).resolve().parents[2], _origin()):
        if clone is not None and (clone / "tools" / "setup.mjs").is_file():
            node = shutil.which("node")
            if node is None:
                raise LocalError("Node.js 20.19 or later is needed, and there is no node on PATH: see https://nodejs.org")
            main = clone / "dist" / "src" / "cli" / "main.js"
            return Command([node, str(main)], [node, str(clone / "tools" / "setup.mjs")])
    found = shutil.which("temporal-rollout", path=os.pathsep.join(map(str, _programs())))
    if found is None:
        raise LocalError(
            "the project's programs were not found: pip install 'durable-rollouts[server]', npm install durable-rollouts in "
            "this folder, keep the clone that this package was installed from (pip install ./python), or put temporal-rollout "
            "on PATH"
        )
    return Command([found], None)


def _programs() -> List[Path]:
    """This Python's own programs, those of npm here and in the folders above, and PATH."""
    here = Path.cwd()
    of_npm = [folder / "node_modules" / ".bin" for folder in (here, *here.parents)]
    on_path = [Path(folder) for folder in os.environ.get("PATH", os.defpath).split(os.pathsep) if folder]
    return [Path(sysconfig.get_path("scripts")), *of_npm, *on_path]


def _origin() -> Optional[Path]:
    """The clone that pip installed this package from, as pip has noted it."""
    try:
        noted = metadata.distribution("durable-rollouts").read_text("direct_url.json")
        url = urlsplit(json.loads(noted or "{}").get("url", ""))
    except (metadata.PackageNotFoundError, ValueError):
        return None
    return Path(unquote(url.path)).parent if url.scheme == "file" else None


class Stack:
    """The stack that runs in a folder, from its ``stack.json``."""

    def __init__(self, home: Path, said: Dict[str, Any]) -> None:
        self.home = home
        self.pid: int = said["pid"]
        self.address: str = said["address"]
        self.namespace: str = said["namespace"]
        self.task_queue: str = said["task_queue"]
        self.ui_url: str = said["ui_url"]
        self.viewer_url: str = said["viewer_url"]
        self.engine: Optional[str] = said["engine"]
        self.engine_faults: List[str] = said["engine_faults"]
        self.served: Dict[str, str] = said["served"]
        self.environments: List[str] = said["environments"]
        self.ends_unused: bool = said["ends_unused"]
        self.version: Optional[str] = said.get("version")
        """None: of a build that does not say it."""


def what_runs(home: Path) -> Optional[Stack]:
    """None: nothing, or it starts or ends. Whether its process lives is for ``temporal-rollout up --join`` to say."""
    try:
        return readable(home)
    except LocalError:
        return None


def running(home: Path) -> Optional[Stack]:
    """The same, if its process lives on this machine: in a shared folder it may be one of another host."""
    stack = what_runs(home)
    try:
        if stack is None or json.loads((home / STATE / "stack.lock").read_text())["host"] != socket.gethostname():
            return None
        with suppress(PermissionError):  # It is somebody else's.
            os.kill(stack.pid, 0)
    except (OSError, ValueError, KeyError):
        return None
    return stack


def readable(home: Path) -> Optional[Stack]:
    """The same. Raises ``LocalError`` for the stack of a build that says less of itself: nobody can wait for the rest."""
    try:
        said = json.loads((home / STATE / "stack.json").read_text())
    except (OSError, ValueError):
        return None
    try:
        return Stack(home, said)
    except KeyError as field:
        end = shlex.join([*find_command().run, "up", "--end", "--config", str(home / "temporal.yaml")])
        raise LocalError(
            f"the stack of {home} is of another build: its version is {said.get('version', 'not said')}, this package's "
            f"{package_version()}, and its stack.json has no {field}. End it with the programs of its version or with these, "
            f"then start again; batches go on: {end}"
        ) from None


def package_version() -> str:
    from . import __version__

    return __version__


_started: Dict[Path, "subprocess.Popen[bytes]"] = {}


def check_folder(home: Path) -> None:
    """Raises ``LocalError`` where a stack cannot keep its files."""
    logs = home / STATE / "logs"
    try:
        logs.mkdir(parents=True, exist_ok=True, mode=0o700)
        Log(logs / "stack.log").file.close()
    except OSError as error:
        raise LocalError(f"folder: expected one in which {STATE} can be written, got {str(home)!r}: {error}") from None


def join(home: Path, *, engine: Optional[str], keep: bool) -> Stack:
    """Joins the stack of this folder, or starts one, and waits until it is up. It stays as long as a process uses it."""
    command = find_command()
    logs = home / STATE / "logs"
    with Log(logs / "stack.log") as log:
        if command.prepare is not None:
            prepared = _start(command.prepare, home, log)
            while prepared.poll() is None:
                log.show_if_slow()
                time.sleep(LOOK_S)
            if prepared.returncode != 0:
                raise LocalError(f"the stack cannot be started:\n{log.end()}")
        up = [*command.run, "up", "--join", str(os.getpid()), "--config", str(home / "temporal.yaml")]
        up += ["--keep"] * keep + (["--engine", engine] if engine is not None else [])
        while True:
            found = _joined(_start(up, home, log), home, log)
            if found is not None:
                return found


def _joined(process: "subprocess.Popen[bytes]", home: Path, log: "Log") -> Optional[Stack]:
    """None: what it has joined has ended meanwhile."""
    while True:
        code = process.poll()
        found = readable(home)
        if code is None and found is not None and found.pid == process.pid:
            _started[home] = process
            return found
        if code == 0:
            return found
        if code is not None:
            raise LocalError(log.end() or f"temporal-rollout up ended with code {code}, and said nothing ({log.path})")
        log.show_if_slow()
        time.sleep(LOOK_S)


def _start(args: List[str], home: Path, log: "Log") -> "subprocess.Popen[bytes]":
    # A program that npm started is ended with npm, and this one is not.
    env = {name: value for name, value in os.environ.items() if not name.startswith("npm_")}
    return subprocess.Popen(
        args, cwd=home, env=env, stdin=subprocess.DEVNULL, stdout=log.file, stderr=log.file, start_new_session=True
    )


class Log:
    """The lines that are added to a log from now on."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = open(path, "ab", opener=lambda name, flags: os.open(name, flags, 0o600))
        self._from = self._shown = path.stat().st_size
        self._began = time.monotonic()

    def __enter__(self) -> "Log":
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def _since(self, place: int) -> str:
        with open(self.path, "rb") as file:
            file.seek(place)
            return file.read().decode(errors="replace")

    def show_if_slow(self) -> None:
        if time.monotonic() - self._began < QUIET_S:
            return
        whole, newline, _ = self._since(self._shown).rpartition("\n")
        self._shown += len((whole + newline).encode())
        for line in filter(str.strip, whole.split("\n")):
            say(line)

    def deaths_of(self, part: str) -> List[str]:
        """Each with its reason, as the stack has said it."""
        return [line for line in self._since(self._from).split("\n") if line.startswith(f"{part} ended ")]

    def end(self) -> str:
        return "\n".join(self._since(self._from).rstrip().split("\n")[-LAST_LINES:])


def keep_small(log: Path) -> None:
    """A log that has grown large becomes ``<log>.1``, and begins anew, as ``src/platform/process/small-log.ts`` does it."""
    if log.stat().st_size > MOST_LOG_BYTES:
        with suppress(OSError):
            shutil.copy(log, f"{log}.1")
        os.truncate(log, 0)


def leave(home: Path, *, wait: bool) -> None:
    """This process no longer uses the stack. If it was the last, the stack ends; ``wait``: until it has."""
    lock = home / STATE / "stack.lock"
    held, ends = _text(lock), ends_with(home)
    with suppress(FileNotFoundError):
        _user(home).unlink()
    until = time.monotonic() + ENDS_WITHIN_S
    while wait and ends and held is not None and _text(lock) == held:
        if time.monotonic() > until:
            say(f"the stack of {home} has not ended within {ENDS_WITHIN_S:.0f} s (log: {home / STATE / 'logs' / 'stack.log'})")
            return
        time.sleep(LOOK_S)
    process = _started.pop(home, None) if ends and wait else None
    if process is not None:
        with suppress(subprocess.TimeoutExpired):
            process.wait(5)


def ends_with(home: Path) -> bool:
    """Whether no other process uses the stack, and none keeps it."""
    found = what_runs(home)
    others = [file for file in _user(home).parent.glob("*.json") if file != _user(home)]
    return found is not None and found.ends_unused and not others


def _user(home: Path) -> Path:
    return home / STATE / "users" / f"{os.getpid()}.json"


def _text(path: Path) -> Optional[str]:
    try:
        return path.read_text()
    except OSError:
        return None


def say(line: str) -> None:
    print(f"durable_rollouts: {line}", file=sys.stderr, flush=True)
