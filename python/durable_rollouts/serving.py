"""Environments that this process serves to the stack of a folder: functions, classes and objects of its memory."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Dict, List, Optional
from urllib.parse import urlsplit

from rollout_environment.forms import check_reward as check_reward
from rollout_environment.template import Template

from .stack import STATE, LocalError, keep_small, say

HELD = (errno.EACCES, errno.EAGAIN)
"""What a lock fails with where another process has it."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
END_S = 10.0
AGAIN_S = 1.0
LOOK_S = 60.0
"""How often the size of the log is looked at."""
PORT_S = 3.0
"""How long the server of a process that was killed may still have its port."""
SLOW_S = 5.0
LAST_LINES = 20


class Served:
    """One environment of a folder. While this process serves it, its file is locked, which the system ends with it."""

    def __init__(self, home: Path, name: str) -> None:
        """Raises ``LocalError`` if another process serves one of this name."""
        if NAME.fullmatch(name) is None:
            raise LocalError(f"environments: expected a name of letters, digits and ._- (at most 100), got {name!r}")
        self.name = name
        self.log = home / STATE / "logs" / f"environment-{name}.log"
        file = home / STATE / "environments" / f"{name}.json"
        for folder in (self.log.parent, file.parent):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._file = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            # Not flock: a fork of this process would hold it, too.
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            noted = self._noted()
            os.close(self._file)
            if error.errno not in HELD:
                raise LocalError(f"folder: expected one on a disk whose files can be locked, got {str(home)!r}: {error}") from None
            raise LocalError(
                f"environments: {name} is served in {home} by process {noted.get('pid')}, perhaps another notebook; "
                "give yours another name, or close() its local() there"
            ) from None
        noted = self._noted()
        self.url: str = noted.get("url") or ""
        self.code: Optional[str] = noted.get("code")
        """The digest of what was served last; None: nothing was."""
        self._template: Optional[Any] = None
        self._process: Optional["subprocess.Popen[bytes]"] = None
        self._closed = False

    def _noted(self) -> Dict[str, Any]:
        os.lseek(self._file, 0, os.SEEK_SET)
        try:
            noted = json.loads(os.read(self._file, 2**16))
        except ValueError:
            return {}
        return noted if isinstance(noted, dict) else {}

    def serve(self, found: Any, code: str) -> None:
        """From now on, instead of what was served before; on the same port if it is free. Its code is as it is now."""
        self._end()
        self.log.touch(mode=0o600)
        self._template = None if isinstance(found, str) else Template(found, str(self.log))
        label = found if isinstance(found, str) else getattr(found, "__name__", type(found).__name__)
        try:
            url = self._started(label)
        except BaseException:
            self._end()
            raise
        self.url, self.code = url, code
        self._note()
        threading.Thread(target=self._watch, args=(label, self._process), name="durable_rollouts", daemon=True).start()

    def _note(self) -> None:
        data = json.dumps({"url": self.url, "code": self.code, "pid": os.getpid()}).encode()
        os.pwrite(self._file, data, 0)
        os.ftruncate(self._file, len(data))

    def _started(self, label: str) -> str:
        """The server's URL: with the port of the last one, or another if that stays taken."""
        port, until = urlsplit(self.url).port or 0, time.monotonic() + PORT_S
        while True:
            place = self.log.stat().st_size
            self._process = process = self._start(label, port)
            line = self._first_line(process)
            if line:
                return line.rpartition(" on ")[2]
            process.wait()
            why = "\n".join(self.log.read_bytes()[place:].decode(errors="replace").rstrip().split("\n")[-LAST_LINES:])
            if not (port and "cannot listen on" in why):
                raise LocalError(f"environments: {self.name} cannot be served (log: {self.log}):\n{why}")
            if time.monotonic() > until:
                port = 0
            time.sleep(AGAIN_S / 2)

    def _start(self, label: str, port: int) -> "subprocess.Popen[bytes]":
        args = [sys.executable, "-m", "rollout_environment", label, "--port", str(port), "--parent", str(os.getpid())]
        copies: List[int] = [] if self._template is None else [self._template.control.fileno()]
        args += [part for number in copies for part in ("--copies", str(number))]
        # As this process finds modules, and without what would lead a server's processes elsewhere.
        path = os.pathsep.join([str(Path(__file__).resolve().parents[1]), *filter(None, sys.path)])
        with open(self.log, "ab") as log:
            return subprocess.Popen(
                args,
                env={**os.environ, "PYTHONPATH": path},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                pass_fds=copies,
                start_new_session=True,
            )

    def _first_line(self, process: "subprocess.Popen[bytes]") -> str:
        slow = threading.Timer(SLOW_S, say, [f"environment {self.name} is still being loaded (log: {self.log})"])
        slow.daemon = True
        slow.start()
        try:
            assert process.stdout is not None
            return process.stdout.readline().decode().strip()
        finally:
            slow.cancel()

    def _watch(self, label: str, process: "subprocess.Popen[bytes]") -> None:
        """Starts the server again when it dies. Rollouts wait for it meanwhile."""
        while True:
            self._wait(process)
            if self._closed or self._process is not process:
                return
            say(f"the server of environment {self.name} has ended with code {process.returncode}; it starts again")
            time.sleep(AGAIN_S)
            try:
                url = self._started(label)
            except LocalError as error:
                if not self._closed:
                    say(f"{error}\nRollouts that use it wait; call local() again.")
                return
            if self._process is None or self._closed:
                return
            process = self._process
            if url != self.url:
                self.url = url
                self._note()

    def _wait(self, process: "subprocess.Popen[bytes]") -> None:
        while True:
            try:
                process.wait(LOOK_S)
                return
            except subprocess.TimeoutExpired:
                with suppress(OSError):
                    keep_small(self.log)

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()
        template, self._template = self._template, None
        if template is not None:
            template.close()

    def close(self) -> None:
        """Its file stays: rollouts that use it wait until it is served again."""
        if self._closed:
            return
        self._closed = True
        self._end()
        with suppress(OSError):
            os.close(self._file)
