"""The policy: a small neural language model over ASCII ids, with its forward and backward pass and sampling.

Each position sees the ``WINDOW`` ids before it: their concatenated embeddings, one hidden layer, logits over the
vocabulary (Bengio et al. 2003). Trainer and engine both use these functions, each in its own process.
"""

from __future__ import annotations

from typing import Dict, Sequence, Tuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]
Ids = NDArray[np.int64]
Weights = Dict[str, Array]

VOCABULARY = 128
"""Ids are ASCII codes: the tokenizer is ``ord``."""
END = 0
"""The end of a sequence; it has no text."""
WINDOW = 10
EMBEDDING = 32
HIDDEN = 192
NOTHING = 1
"""Fills a window before the first id of a sequence."""
UNLIKELY = -6.0
"""Logit of an untrained policy for ids outside its alphabet, relative to about 0 for the others."""


def untrained(seed: int, alphabet: str) -> Weights:
    """Weights that say random letters of an alphabet, and the end. float32, by name."""
    random = np.random.default_rng(seed)
    weights = {
        "embedding": random.normal(0, EMBEDDING**-0.5, (VOCABULARY, EMBEDDING)),
        "hidden": random.normal(0, WINDOW**-0.5, (WINDOW * EMBEDDING, HIDDEN)),
        "hidden_bias": np.zeros(HIDDEN),
        "output": random.normal(0, 0.3 * HIDDEN**-0.5, (HIDDEN, VOCABULARY)),
        "output_bias": np.full(VOCABULARY, UNLIKELY),
    }
    weights["output_bias"][[END, *map(ord, alphabet)]] = 0
    return {name: array.astype(np.float32) for name, array in weights.items()}


def window_before(ids: Sequence[int], place: int) -> Ids:
    """``(WINDOW,)``: the ids before a position of a sequence, the nearest one last."""
    seen = ids[max(0, place - WINDOW) : place]
    return np.array([*[NOTHING] * (WINDOW - len(seen)), *seen], np.int64)


def forward(weights: Weights, windows: Ids) -> Tuple[Array, Tuple[Array, Array]]:
    """The logits ``(N, VOCABULARY)`` of windows ``(N, WINDOW)``, and the values that ``backward`` needs."""
    seen = weights["embedding"][windows].reshape(len(windows), -1)
    hidden = np.tanh(seen @ weights["hidden"] + weights["hidden_bias"])
    return hidden @ weights["output"] + weights["output_bias"], (seen, hidden)


def backward(weights: Weights, windows: Ids, way: Tuple[Array, Array], d_logits: Array) -> Weights:
    """The gradient of every weight, from that of the logits ``(N, VOCABULARY)``."""
    seen, hidden = way
    d_hidden = d_logits @ weights["output"].T * (1 - hidden**2)
    d_seen = (d_hidden @ weights["hidden"].T).reshape(*windows.shape, -1)
    d_embedding = np.zeros_like(weights["embedding"])
    np.add.at(d_embedding, windows, d_seen)
    return {
        "embedding": d_embedding,
        "hidden": seen.T @ d_hidden,
        "hidden_bias": d_hidden.sum(axis=0),
        "output": hidden.T @ d_logits,
        "output_bias": d_logits.sum(axis=0),
    }


def log_softmax(logits: Array) -> NDArray[np.float64]:
    """Logprobs ``(N, VOCABULARY)`` in nats, in float64, so that nothing is lost if a policy is certain."""
    shifted = logits.astype(np.float64)
    shifted -= shifted.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def next_logprobs(weights: Weights, windows: Ids, temperatures: Array | float = 1.0) -> NDArray[np.float64]:
    """The sampled distribution: ``(N, VOCABULARY)``. Temperature ``(N, 1)``, above 0."""
    return log_softmax(forward(weights, windows)[0] / temperatures)


def draw(logprobs: NDArray[np.float64], uniform: NDArray[np.float64]) -> Ids:
    """Draws a token ``(N,)`` from each distribution ``(N, VOCABULARY)`` with a number ``(N,)`` in [0, 1) each."""
    cumulated = np.cumsum(np.exp(logprobs), axis=1)
    # The last sum is 1 except for rounding; without a comparison it cannot be exceeded.
    return (cumulated[:, :-1] <= uniform[:, None] * cumulated[:, -1:]).sum(axis=1)


def logprobs_of(weights: Weights, ids: Sequence[int]) -> list[float]:
    """The logprob of each id of a sequence except the first, given those before it."""
    windows = np.stack([window_before(ids, place) for place in range(1, len(ids))])
    logprobs = next_logprobs(weights, windows)
    return [float(logprobs[row, token]) for row, token in enumerate(ids[1:])]
