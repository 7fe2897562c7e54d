"""What the trainer needs of a policy. A module is one: policy.py in numpy, qwen.py in torch, which a vLLM serves."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Callable, Dict, List, Protocol, Tuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]
Floats = NDArray[np.float64]
Ids = NDArray[np.int64]
Weights = Dict[str, Array]

Places = Tuple[Ids, Ids]
"""Rows ``(M,)`` and columns ``(M,)`` of sequences ``(N, T)``."""
Pull = Callable[[Floats], Weights]
"""The gradient with respect to every weight, from that with respect to ``M`` logprobs."""

MODELS = ("policy", "qwen")


class Model(Protocol):
    LEARNING_RATE: float

    def untrained(self, seed: int, alphabet: str) -> Weights:
        """Weights of a policy that says random letters of an alphabet, and the end. float32, by name."""

    def logprobs(self, weights: Weights, ids: Ids, places: Places) -> Tuple[Floats, Pull]:
        """Logprobs of the ids at some places of sequences ``(N, T)``, each given the ids before it in its row; later ids
        do not matter. The same input gives the same bits."""

    def served(self, path: Path, weights: Weights) -> Path:
        """The path from which an engine loads a version. ``path`` is the version's own file."""


def model_of(name: str) -> Model:
    """One of ``MODELS``. Raises ``ImportError`` if its packages are missing."""
    return importlib.import_module(name)


def logprobs_of(model: Model, weights: Weights, ids: List[int]) -> List[float]:
    """Logprobs of all ids of a sequence except the first, each given the ids before it."""
    columns = np.arange(1, len(ids))
    logprobs, _ = model.logprobs(weights, np.array([ids]), (np.zeros_like(columns), columns))
    return logprobs.tolist()
