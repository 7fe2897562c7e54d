"""The policy as a tiny Qwen2, an architecture that vLLM supports. Torch does its forward and backward pass.

    python qwen.py --folder FOLDER --seed 1      writes the model that a vLLM serves first: config, tokenizer, untrained weights

As in policy.py, its ids are ASCII codes, and at first a place depends only on the ids right before it: head ``n`` of its
only layer begins by looking ``n`` places back. Needs torch, transformers and safetensors, which come with vLLM. For the
trainer this module is a ``model.Model``.
"""

from __future__ import annotations

import argparse
import os
from functools import lru_cache
from pathlib import Path
from typing import Tuple

import numpy as np
import torch
from safetensors.numpy import save_file
from tokenizers.pre_tokenizers import ByteLevel
from transformers import GenerationConfig, Qwen2Config, Qwen2ForCausalLM, Qwen2Tokenizer

from model import Array, Floats, Ids, Places, Pull, Weights
from policy import END, UNLIKELY, VOCABULARY, WINDOW
from task import LETTERS

LEARNING_RATE = 0.001
HEAD = 32
"""Size of a head, the smallest that vLLM's attention on a CPU accepts."""
THETA = 4.0
"""Base of the rotary embedding. A small base distinguishes neighbouring places."""
SHARP = 2.5
"""Size of the biases of queries and keys: nine tenths of a head's attention are on one place."""
CONTENT = 0.1
"""How much the content of a place contributes to the attention."""
ALWAYS = 4.0
"""First number of each embedding. It acts as a bias of the last layer, which has none."""
LONGEST = 512


def config() -> Qwen2Config:
    return Qwen2Config(
        vocab_size=VOCABULARY,
        hidden_size=WINDOW * HEAD,
        intermediate_size=2 * WINDOW * HEAD,
        num_hidden_layers=1,
        num_attention_heads=WINDOW,
        num_key_value_heads=WINDOW,
        max_position_embeddings=LONGEST,
        rope_parameters={"rope_type": "default", "rope_theta": THETA},
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=END,
        architectures=["Qwen2ForCausalLM"],
        dtype="float32",
    )


@lru_cache
def network() -> Qwen2ForCausalLM:
    return Qwen2ForCausalLM(config()).to(torch.float32)


def untrained(seed: int, alphabet: str) -> Weights:
    """See ``model.Model``."""
    random = np.random.default_rng(seed)
    shapes = {name: tuple(array.shape) for name, array in network().state_dict().items()}
    weights = {name: initial(name, shape, random) for name, shape in shapes.items()}
    query, key = (f"model.layers.0.self_attn.{one}_proj" for one in "qk")
    weights[f"{query}.weight"] *= CONTENT
    weights[f"{key}.weight"] *= CONTENT
    # A head's query is rotated back by as many places as the head looks back, so it matches the key there best.
    turn = np.outer(np.arange(WINDOW), THETA ** -(np.arange(HEAD // 2) / (HEAD // 2)))
    weights[f"{query}.bias"] = SHARP * np.hstack([np.cos(turn), -np.sin(turn)]).ravel()
    weights[f"{key}.bias"] = SHARP * np.hstack([np.ones_like(turn), np.zeros_like(turn)]).ravel()
    weights["model.embed_tokens.weight"][:, 0] = ALWAYS
    said = weights["lm_head.weight"]
    said *= 0.3
    said[:, 0] = UNLIKELY / ALWAYS
    said[[END, *map(ord, alphabet)], 0] = 0
    return {name: array.astype(np.float32) for name, array in weights.items()}


def initial(name: str, shape: Tuple[int, ...], random: np.random.Generator) -> Array:
    if name.endswith("norm.weight"):
        return np.ones(shape)
    if name.endswith("bias"):
        return np.zeros(shape)
    return random.normal(0, 1 if "embed" in name else shape[1] ** -0.5, shape)


def logprobs(weights: Weights, ids: Ids, places: Places) -> Tuple[Floats, Pull]:
    """See ``model.Model``."""
    model = network()
    model.load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()})
    rows, columns = map(torch.from_numpy, places)
    seen = torch.from_numpy(ids)
    # Padding follows the requested places, and attention never looks ahead.
    hidden = model.model(input_ids=seen, use_cache=False).last_hidden_state[rows, columns - 1]
    of_all = torch.log_softmax(model.lm_head(hidden).double(), dim=1)
    chosen = of_all.gather(1, seen[rows, columns][:, None])[:, 0]

    def pull(by_logprob: Floats) -> Weights:
        names, parameters = zip(*model.named_parameters())
        slopes = torch.autograd.grad(chosen, parameters, torch.from_numpy(by_logprob))
        return {name: slope.numpy() for name, slope in zip(names, slopes)}

    return chosen.detach().numpy(), pull


def served(path: Path, weights: Weights) -> Path:
    """A folder beside the file, as vLLM's ``reload_weights`` expects."""
    folder = path.with_suffix("")
    folder.mkdir(exist_ok=True)
    save(folder, weights)
    return folder


def save(folder: Path, weights: Weights) -> None:
    temporary = folder / ".unfinished"
    save_file(weights, temporary, {"format": "pt"})
    os.replace(temporary, folder / "model.safetensors")


def tokenizer() -> Qwen2Tokenizer:
    """``ord`` and ``chr`` as a tokenizer of Qwen2: one id for each byte name, and no merges."""
    names = ByteLevel(add_prefix_space=False, use_regex=False)
    ids = {names.pre_tokenize_str(chr(id))[0][0]: id for id in range(VOCABULARY) if id != END}
    return Qwen2Tokenizer(vocab={"<|endoftext|>": END, **ids}, merges=[])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--seed", type=int, required=True)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    for part in (config(), tokenizer(), GenerationConfig(eos_token_id=END)):
        part.save_pretrained(args.folder)
    save(args.folder, untrained(args.seed, LETTERS))


if __name__ == "__main__":
    main()
