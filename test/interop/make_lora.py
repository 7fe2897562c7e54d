#!/usr/bin/env python3
"""Makes random LoRA adapters of the tiny model: python make_lora.py OUT_DIR MODEL_DIR [SEED …]

Without a seed OUT_DIR is an adapter. With some, OUT_DIR/SEED is one for each, and OUT_DIR/SEED-merged the model with it.
"""
import json
import os
import shutil
import sys

import torch
from safetensors.torch import load_file, save_file

RANK = 4
ALPHA = 8
WEIGHTS = "model.safetensors"
out, model, *seeds = sys.argv[1:]
with open(os.path.join(model, "config.json")) as file:
    config = json.load(file)
hidden, heads = config["hidden_size"], config["head_dim"]
SIZES = {"q_proj": config["num_attention_heads"] * heads, "v_proj": config["num_key_value_heads"] * heads}


def drawn(seed):
    """By place: the two factors of what is added to the weights there."""
    torch.manual_seed(seed)
    places = [f"model.layers.{i}.self_attn.{name}" for i in range(config["num_hidden_layers"]) for name in SIZES]
    return {at: (torch.randn(RANK, hidden) * 0.3, torch.randn(SIZES[at.split(".")[-1]], RANK) * 0.3) for at in places}


def write(folder, factors):
    os.makedirs(folder, exist_ok=True)
    weights = {}
    for place, (a, b) in factors.items():
        weights[f"base_model.model.{place}.lora_A.weight"] = a
        weights[f"base_model.model.{place}.lora_B.weight"] = b
    save_file(weights, os.path.join(folder, "adapter_model.safetensors"))
    with open(os.path.join(folder, "adapter_config.json"), "w") as file:
        adapter = {"peft_type": "LORA", "r": RANK, "lora_alpha": ALPHA, "target_modules": list(SIZES), "lora_dropout": 0.0}
        json.dump({**adapter, "bias": "none", "task_type": "CAUSAL_LM", "base_model_name_or_path": "model"}, file)


def merge(folder, factors):
    shutil.copytree(model, folder, ignore=shutil.ignore_patterns(WEIGHTS), dirs_exist_ok=True)
    weights = load_file(os.path.join(model, WEIGHTS))
    for place, (a, b) in factors.items():
        weights[f"{place}.weight"] += ALPHA / RANK * (b @ a)
    save_file(weights, os.path.join(folder, WEIGHTS), metadata={"format": "pt"})


if not seeds:
    write(out, drawn(5))
for seed in seeds:
    factors = drawn(int(seed))
    write(os.path.join(out, seed), factors)
    merge(os.path.join(out, f"{seed}-merged"), factors)
