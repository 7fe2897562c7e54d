"""The engine: samples many sequences at once from the policy, one token of each per tick, and logs every token.

It has no HTTP code (see wire.py). Its log names the weights that sampled each token by the version in the file of
weights itself, not by a label that someone set:

    {"sequence", "request", "prompt", "at"}                     a request has arrived
    {"version", "tokens": [[sequence, id, logprob], …]}         a tick

A line is written before its tokens are passed on, so every delivered token is in the log.
"""

from __future__ import annotations

import os
import threading
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Dict, List, Optional, Set

import numpy as np

import policy
from model import Weights, logprobs_of
from policy import END, draw, next_logprobs, window_before
from run import append, read

GREEDY = 1e-6
"""Used for temperature 0."""


@dataclass(frozen=True)
class Token:
    id: int
    logprob: float
    likeliest: Dict[int, float]
    """Logprobs of the requested number of ids at this position."""


@dataclass
class Request:
    id: str
    prompt: List[int]
    max_tokens: int
    temperature: float
    seed: Optional[int]
    stop: List[str]
    likeliest: int
    """How many ids to report per position."""
    adapter: Optional[str] = None
    """By which it is sampled; None: by the weights alone."""


Emit = Callable[[List[Token], Optional[str], Optional[str]], bool]
"""Passes on tokens and, at the end, the reason and the stop string. False: nobody listens."""


@dataclass
class Sequence:
    request: Request
    emit: Emit
    name: str
    random: np.random.Generator
    ids: List[int]
    text: str = ""
    done: threading.Event = field(default_factory=threading.Event)

    @property
    def sampled(self) -> int:
        return len(self.ids) - len(self.request.prompt)

    def end_with(self, token: int) -> tuple[Optional[str], Optional[str]]:
        """Why the sequence ends after this token, and with which stop string; the token has been appended."""
        if token == END:
            return "stop", None
        for stop in self.request.stop:
            if self.text.endswith(stop):
                return "stop", stop
        return ("length", None) if self.sampled >= self.request.max_tokens else (None, None)


class Engine:
    """All methods may be called from any thread."""

    takes_adapters = False

    def __init__(self, weights: Weights, *, log: Path, tick_s: float) -> None:
        self._weights, self._version = weights, "base"
        self._label = "default"
        self._log = log
        self._tick_s = tick_s
        self._life = uuid.uuid4().hex[:8]
        self._count = 0
        self._running: List[Sequence] = []
        self._paused = False
        self._draining: Set[str] = set()
        self._asleep: Set[str] = set()
        self._arrived: Optional[Weights] = None
        self._changed = threading.Condition()

    def submit(self, request: Request, emit: Emit) -> Sequence:
        """It runs from the next tick on; ``done`` of the result is set when nothing more comes."""
        with self._changed:
            self._count += 1
            name = f"{self._life}-{self._count}"
            random = np.random.default_rng(request.seed)
            sequence = Sequence(request, emit, name, random, list(request.prompt))
            append(self._log, {"sequence": name, "request": request.id, "prompt": request.prompt, "at": time.time()})
            self._running.append(sequence)
            self._changed.notify_all()
        return sequence

    def run(self) -> None:
        """Until the process ends."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: len(self._due()) > 0)
                self.tick()
            time.sleep(self._tick_s)

    def _due(self) -> List[Sequence]:
        return [one for one in self._running if not self._paused or one.name in self._draining]

    def tick(self) -> None:
        """Samples a token of each sequence."""
        self._needs("weights", "kv_cache")
        running = self._due()
        windows = np.stack([window_before(one.ids, len(one.ids)) for one in running])
        temperatures = np.array([[one.request.temperature or GREEDY] for one in running])
        logprobs = next_logprobs(self._weights, windows, temperatures)
        self._pass_on(running, logprobs, draw(logprobs, np.array([one.random.random() for one in running])))

    @property
    def adapters(self) -> List[str]:
        """Those that it has loaded."""
        return []

    def load_adapter(self, name: str, path: str) -> None:
        """Beside the weights: nothing stops. Raises ``OSError`` and ``ValueError``."""
        raise ValueError("this engine takes no adapters")

    def unload_adapter(self, name: str) -> None:
        """Raises ``KeyError`` for one that it does not have."""
        raise KeyError(name)

    def _pass_on(self, running: List[Sequence], logprobs: np.ndarray, drawn: np.ndarray, version: Optional[str] = None) -> None:
        """Logs what was drawn for each one, and then says it. version: None: that of the weights."""
        tokens = [
            Token(int(token), float(logprobs[row, token]), likeliest(logprobs[row], one.request.likeliest))
            for row, (one, token) in enumerate(zip(running, drawn))
        ]
        told = [[one.name, token.id, token.logprob] for one, token in zip(running, tokens)]
        append(self._log, {"version": version or self._version, "tokens": told})
        for one, token in zip(running, tokens):
            self._take(one, token)
        self._changed.notify_all()

    def _take(self, sequence: Sequence, token: Token) -> None:
        sequence.ids.append(token.id)
        sequence.text += "" if token.id == END else chr(token.id)
        reason, stop = sequence.end_with(token.id)
        is_heard = sequence.emit([token], reason, stop)
        if reason is not None or not is_heard:
            self._leave(sequence)

    def _leave(self, sequence: Sequence) -> None:
        if sequence in self._running:
            self._running.remove(sequence)
        sequence.done.set()

    def pause(self, mode: str) -> None:
        """``keep`` freezes running sequences, ``abort`` cuts them, ``wait`` returns when they have ended. Nothing new
        starts meanwhile.
        """
        with self._changed:
            self._paused = True
            if mode == "abort":
                for sequence in list(self._running):
                    sequence.emit([], "abort", None)
                    self._leave(sequence)
            if mode == "wait":
                self._draining = {one.name for one in self._running}
                self._changed.wait_for(lambda: not self._paused or len(self._due()) == 0)
                self._draining = set()

    def resume(self) -> None:
        with self._changed:
            self._paused = False
            self._changed.notify_all()

    @property
    def is_paused(self) -> bool:
        return self._paused

    def load(self, path: str) -> None:
        """Complete, between two ticks. Raises ``OSError`` and ``ValueError``; then the weights are unchanged."""
        self._needs("weights")
        self._take_weights(read(Path(path)))

    def _take_weights(self, arrays: Weights) -> None:
        version = str(int(arrays["version"]))
        weights = {name: arrays[name] for name in self._weights}
        with self._changed:
            self._weights, self._version = weights, version

    def start_update(self) -> None:
        """Of weights that arrive in parts. Raises ``ValueError`` while one is under way."""
        if self._arrived is not None:
            raise ValueError("a weight update is already active")
        self._arrived = {}

    def receive(self, arrays: Weights) -> None:
        """A part of them. Raises ``ValueError`` without an update."""
        self._needs("weights")
        if self._arrived is None:
            raise ValueError("no weight update is active")
        self._arrived.update(arrays)

    def finish_update(self) -> None:
        """Raises ``ValueError`` without an update; one in which nothing came changes nothing."""
        if self._arrived is None:
            raise ValueError("no weight update is active")
        arrays, self._arrived = self._arrived, None
        if arrays:
            self._take_weights(arrays)

    def sleep(self, level: int) -> None:
        """Cuts what runs. At level 2 the weights are lost. Whoever lets it compute before it is awake ends the process."""
        self.pause("abort")
        with self._changed:
            if level == 2 and "weights" not in self._asleep:
                self._weights = {name: np.full_like(array, np.nan) for name, array in self._weights.items()}
                self._version = "dropped"
            self._asleep = {"weights", "kv_cache"}

    def wake_up(self, tags: Optional[List[str]]) -> bool:
        """Whether it is awake, and samples again."""
        with self._changed:
            self._asleep = set() if tags is None else self._asleep.difference(tags)
            is_awake = not self._asleep
        if is_awake:
            self.resume()
        return is_awake

    @property
    def is_asleep(self) -> bool:
        return bool(self._asleep)

    def _needs(self, *memory: str) -> None:
        if self._asleep.intersection(memory):
            os._exit(1)

    @property
    def label(self) -> str:
        """The version label that someone set."""
        return self._label

    @label.setter
    def label(self, label: str) -> None:
        self._label = label

    def prompt_logprobs(self, ids: List[int], adapter: Optional[str] = None) -> List[float]:
        """Logprobs of all ids except the first."""
        self._needs("weights", "kv_cache")
        return logprobs_of(policy, self._weights, ids)


def likeliest(logprobs: np.ndarray, count: int) -> Dict[int, float]:
    if count == 0:
        return {}
    return {int(token): float(logprobs[token]) for token in np.argsort(-logprobs, kind="stable")[:count]}
