"""``temporal-rollout`` as a process that ends with this one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import deque
from typing import Callable, Deque, List, Optional

from ..stack import LAST_LINES, find_command


class CollectionFailed(RuntimeError):
    """A command of NeMo Gym's collection has not done all that it was asked. Its text is what the command said last.

    code: its exit code: 1: rows failed, or there is no result; 2: it does not understand its arguments; 130: it was
      interrupted; below 0: the signal that ended it
    """

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class Program:
    """Commands of this installation, one after the other."""

    def __init__(self, *, show: bool, heard: Callable[[str], None] = lambda line: None) -> None:
        """``show``: lines go to standard error; ``heard`` gets each."""
        self._show = show
        self._heard = heard
        self._process: Optional["subprocess.Popen[str]"] = None
        self._is_left = False

    def run(self, args: List[str]) -> None:
        """To its end. Raises ``CollectionFailed``, and ``LocalError`` if there is no such program."""
        command = find_command()
        if command.prepare is not None:
            self._run(command.prepare, "the project's set-up")
        self._run([*command.run, *args], f"temporal-rollout {args[0]}")

    def interrupt(self) -> None:
        """It ends in order, and what it plays can be continued. None is started any more."""
        self._is_left = True
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)

    def _run(self, args: List[str], name: str) -> None:
        if self._is_left:
            raise CollectionFailed(f"{name} was interrupted before it began", 130)
        # A program that npm started is ended with npm, and this one is not.
        env = {name: value for name, value in os.environ.items() if not name.startswith("npm_")}
        words: Deque[str] = deque(maxlen=LAST_LINES)
        with subprocess.Popen(
            args,
            # Its standard input ends with this process, and with that the program.
            env={**env, "ROLLOUT_LIFELINE": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf8",
            errors="replace",
            # Ctrl-C reaches this process alone, which passes it on: in a notebook, too.
            start_new_session=True,
        ) as process:
            self._process = process
            try:
                for line in process.stdout or ():
                    words.append(line.rstrip())
                    self._heard(words[-1])
                    if self._show:
                        print(words[-1], file=sys.stderr, flush=True)
                process.wait()
            except BaseException:
                self.interrupt()
                process.communicate()
                raise
        if process.returncode != 0:
            said = "\n".join(words).strip() or "and said nothing"
            raise CollectionFailed(f"{name} ended with code {process.returncode}:\n{said}", process.returncode)
