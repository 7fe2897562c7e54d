"""How far the gradients of two trainings are from each other: by step, the largest difference of an element."""

import json
import sys
from pathlib import Path

import torch

one, other = map(Path, sys.argv[1:])
furthest = {}
for file in sorted(one.glob("grads-*.pt")):
    ours, theirs = torch.load(file), torch.load(other / file.name)
    if ours.keys() != theirs.keys() or not any(grad.abs().max() > 0 for grad in ours.values()):
        raise SystemExit(f"{file.name}: other parameters, or no gradient at all")
    furthest[file.stem.removeprefix("grads-")] = max(float((grad - theirs[name]).abs().max()) for name, grad in ours.items())
print(json.dumps(furthest))
