"""The policy: a small neural language model over ASCII ids, with its forward and backward pass and sampling.

Each position sees the ``WINDOW`` ids before it: their concatenated embeddings, one hidden layer, logits over the
vocabulary (Bengio et al. 2003). Trainer and engine both use these functions, each in its own process.
For the trainer this module is a ``model.Model``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Sequence, Tuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from model import Array, Floats, Ids, Places, Pull, Weights

LEARNING_RATE = 0.015

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
    """Weights of a policy that says random letters of an alphabet, and the end. float32, by name."""
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


def log_softmax(logits: Array) -> Floats:
    """Logprobs ``(N, VOCABULARY)`` in nats, in float64, so that nothing is lost where a policy is certain."""
    shifted = logits.astype(np.float64)
    shifted -= shifted.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def next_logprobs(weights: Weights, windows: Ids, temperatures: Array | float = 1.0) -> Floats:
    """Logprobs of the distribution of the next token: ``(N, VOCABULARY)``. Temperature ``(N, 1)``, above 0."""
    return log_softmax(forward(weights, windows)[0] / temperatures)


def draw(logprobs: Floats, uniform: Floats) -> Ids:
    """Draws a token ``(N,)`` from each distribution ``(N, VOCABULARY)`` by a number ``(N,)`` from 0 to 1 (excluded)."""
    cumulated = np.cumsum(np.exp(logprobs), axis=1)
    # The last sum is 1 except for rounding; without a comparison it cannot be exceeded.
    return (cumulated[:, :-1] <= uniform[:, None] * cumulated[:, -1:]).sum(axis=1)


def logprobs(weights: Weights, ids: Ids, places: Places) -> Tuple[Floats, Pull]:
    """See ``model.Model``."""
    before = np.pad(ids, ((0, 0), (WINDOW, 0)), constant_values=NOTHING)
    windows = sliding_window_view(before, WINDOW, axis=1)[places]
    logits, way = forward(weights, windows)
    of_all = log_softmax(logits)
    chosen = (np.arange(len(windows)), ids[places])

    def pull(by_logprob: Floats) -> Weights:
        d_logits = -np.exp(of_all) * by_logprob[:, None]
        d_logits[chosen] += by_logprob
        return backward(weights, windows, way, d_logits.astype(logits.dtype))

    return of_all[chosen], pull


def served(path: Path, weights: Weights) -> Path:
    """The engine of this example reads a version's own file."""
    return path
