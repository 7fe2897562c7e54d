"""prime-rl's types on the wire, made of their names and order (types.json). What a text rollout never has is None here."""

import json
from pathlib import Path
from typing import List, Optional

import msgspec

KINDS = {"ints": List[int], "bools": List[bool], "floats": List[float], "texts": List[str], "text": str, "none": None}


def struct(name, fields):
    """Positional, as prime-rl's are; what may be None may be missing at the end."""
    made = []
    for field, kind in fields:
        of = KINDS[kind.rstrip("?")]
        made.append((field, Optional[of], None) if kind.endswith("?") else (field, of))
    return msgspec.defstruct(name, made, array_like=True, omit_defaults=True)


TYPES = json.loads((Path(__file__).parents[3] / "types.json").read_text())
TrainingSample = struct("TrainingSample", TYPES["TrainingSample"])
MicroBatch = struct("MicroBatch", TYPES["MicroBatch"])
EncodedTensor = RoutedExperts = None
