"""Compares two folders of weights, name by name and byte by byte: python same.py FOLDER FOLDER"""

import sys
from pathlib import Path

import torch
from safetensors.torch import load_file

found, expected = (load_file(Path(folder) / "model.safetensors") for folder in sys.argv[1:])
wrong = [name for name in {*found, *expected} if name not in found or name not in expected or found[name].dtype != expected[name].dtype]
wrong = wrong or [name for name, one in expected.items() if not torch.equal(found[name], one)]
sys.exit(f"{wrong[0]}: differs" if wrong else 0)
