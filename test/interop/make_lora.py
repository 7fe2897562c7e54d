#!/usr/bin/env python3
"""Makes a random LoRA adapter of the tiny model: python make_lora.py OUT_DIR MODEL_DIR"""
import json
import os
import sys

import torch
from safetensors.torch import save_file

RANK = 4
out, model = sys.argv[1:]
with open(os.path.join(model, "config.json")) as file:
    config = json.load(file)
hidden, heads = config["hidden_size"], config["head_dim"]
SIZES = {"q_proj": config["num_attention_heads"] * heads, "v_proj": config["num_key_value_heads"] * heads}

torch.manual_seed(5)
weights = {}
for layer in range(config["num_hidden_layers"]):
    for name, size in SIZES.items():
        place = f"base_model.model.model.layers.{layer}.self_attn.{name}"
        weights[f"{place}.lora_A.weight"] = torch.randn(RANK, hidden) * 0.3
        weights[f"{place}.lora_B.weight"] = torch.randn(size, RANK) * 0.3
os.makedirs(out, exist_ok=True)
save_file(weights, os.path.join(out, "adapter_model.safetensors"))
with open(os.path.join(out, "adapter_config.json"), "w") as file:
    adapter = {"peft_type": "LORA", "r": RANK, "lora_alpha": 8, "target_modules": list(SIZES), "lora_dropout": 0.0}
    json.dump({**adapter, "bias": "none", "task_type": "CAUSAL_LM", "base_model_name_or_path": "model"}, file)
