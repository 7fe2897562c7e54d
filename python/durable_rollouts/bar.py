"""A progress bar if ``tqdm`` is installed, else plain lines. Both go to standard error."""

from __future__ import annotations

import asyncio
import importlib
import sys
from contextlib import asynccontextmanager
from typing import Any, AsyncIterator, Awaitable, Callable, List, Set, Union

from .answers import BatchProgress
from .waits import Seen

Look = Callable[[], Awaitable[Seen]]
LOOK_S = 1.0


@asynccontextmanager
async def shown(look: Look, title: str) -> AsyncIterator[None]:
    """Shows a batch while the block runs, or why nobody answers for it, and its last state."""
    display = _display(title)
    following = asyncio.create_task(_follow(look, display))
    waited = True
    try:
        yield
    except asyncio.CancelledError:  # Ctrl-C: the process may end at once, so this asks for nothing more.
        waited = False
        raise
    finally:
        following.cancel()
        if waited:
            await _draw_end(look, display)
        display.close()


class _Bar:
    every_s = LOOK_S

    def __init__(self, bar: Any) -> None:
        self._bar = bar
        self._failures = _Failures()

    def draw(self, progress: BatchProgress) -> None:
        for line in self._failures.news(progress):
            self._bar.write(line, file=sys.stderr)
        self._bar.total = progress["requested"] or None
        self._bar.n = progress["done"]
        self._bar.set_postfix_str(f"{_state(progress)}, {progress['failed']} failed", refresh=False)
        self._bar.refresh()

    def say(self, trouble: str) -> None:
        self._bar.set_postfix_str(trouble, refresh=False)
        self._bar.refresh()

    def close(self) -> None:
        self._bar.close()


class _Lines:
    every_s = 10.0
    """A line that counts. What the batch waits for has one at once, when it is something else."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._last = ""
        self._state = ""
        self._looks = 0
        self._failures = _Failures()

    def draw(self, progress: BatchProgress) -> None:
        for line in self._failures.news(progress):
            print(line, file=sys.stderr, flush=True)
        is_due = self._is_due(_state(progress))
        line = f"{self._title}: {_counts(progress)}"
        # An unchanged line is a sign of life, until the batch is done.
        if is_due and (line != self._last or progress["phase"] != "done"):
            self._print(line)

    def say(self, trouble: str) -> None:
        if self._is_due(trouble):
            self._print(f"{self._title}: {trouble}")

    def _is_due(self, state: str) -> bool:
        is_news = state != self._state
        self._state = state
        self._looks += 1
        return is_news or self._looks * LOOK_S >= self.every_s

    def _print(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)
        self._last = line
        self._looks = 0

    def close(self) -> None:
        """Every line is complete."""


LONGEST_REASON = 300


class _Failures:
    """Why rollouts fail: the first of each type has a line."""

    def __init__(self) -> None:
        self._told: Set[str] = set()

    def news(self, progress: BatchProgress) -> List[str]:
        found = progress.get("failures", {})
        news = [type for type in found if type not in self._told]
        self._told.update(news)
        return [_printable(f"{found[type]['example']} failed: {type}: {found[type]['message']}") for type in news]


def _printable(text: str) -> str:
    """On one line: others have written it."""
    line = " ".join(text.split())[:LONGEST_REASON]
    return "".join(character if character.isprintable() else "?" for character in line)


def _display(title: str) -> Union[_Bar, _Lines]:
    try:
        tqdm = importlib.import_module("tqdm.auto").tqdm
    except ImportError:
        return _Lines(title)
    return _Bar(tqdm(desc=title, unit="rollout"))


async def _draw_end(look: Look, display: Union[_Bar, _Lines]) -> None:
    """The first answer may be that to an earlier question."""
    for _ in range(2):
        progress = (await look()).progress
        if progress is not None and progress["phase"] == "done":
            break
    if progress is not None:
        display.draw(progress)


async def _follow(look: Look, display: Union[_Bar, _Lines]) -> None:
    while True:
        progress, trouble = await look()
        if progress is not None:
            display.draw(progress)
        elif trouble is not None:
            display.say(trouble)
        await asyncio.sleep(min(LOOK_S, display.every_s))


def _counts(progress: BatchProgress) -> str:
    if not progress["requested"]:
        return _state(progress)
    counts = f"{progress['done']} of {progress['requested']} done, {progress['failed']} failed"
    mean = f", mean reward {progress['reward_sum'] / progress['valid']:.3g}" if progress["valid"] else ""
    return f"{counts}{mean}{f', {_state(progress)}' if progress['waiting'] else ''}"


def _state(progress: BatchProgress) -> str:
    waits = progress["waiting"]
    return progress["phase"] if waits is None else f"waits for {waits['service']}"
