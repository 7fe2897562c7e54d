"""The whole tensors of a trainer's model, under the names that engines know, whatever part of them a rank holds.

All ranks ask for the same ones in the same order: making one whole takes them all. One is made at a time.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, ContextManager, Dict, List, Sequence, Set, Tuple

import torch
from accelerate.state import AcceleratorState, PartialState
from accelerate.utils import DistributedType, extract_model_from_parallel
from torch.distributed.tensor import DTensor

ADAPTER = ".lora_"
"""In each name of an adapter's tensors."""


def check_ranks(state: Any) -> None:
    """Raises ``ValueError``, which names the setting. state: of the process's accelerators."""
    if state.distributed_type == DistributedType.FSDP and state.fsdp_plugin.fsdp_version != 2:
        raise ValueError(f"fsdp_version: expected 2, whose parameters have the model's own names, got {state.fsdp_plugin.fsdp_version}")
    if state.distributed_type in (DistributedType.MEGATRON_LM, DistributedType.XLA):
        raise ValueError(f"distributed_type: expected FSDP, DEEPSPEED or none, got {state.distributed_type.value}: its parameters have other names")


class Whole:
    """A tensor of which this rank may hold a part.

    held: the part
    layer: of PEFT, whose adapter is added to it; None: none is
    """

    def __init__(self, held: torch.Tensor, layer: Any = None) -> None:
        self._held, self._layer = held, layer
        self.dtype = held.dtype
        self.shape = torch.Size(getattr(held, "ds_shape", held.shape))

    def full_tensor(self) -> torch.Tensor:
        """A copy. It has the name under which vLLM asks parts of FSDP for it."""
        layer = self._layer
        adapters = [] if layer is None else [one for one in layer.active_adapters if one in layer.lora_A]
        factors = [factor[one].weight for one in adapters for factor in (layer.lora_A, layer.lora_B)]
        with torch.no_grad(), _gathered([self._held, *factors]):
            whole = _of_shards(self._held).detach().clone()
            for one in adapters:
                # The trainer's own weights stay: taken out again, an adapter would leave rounding errors in them.
                whole += _of_shards(layer.get_delta_weight(one)).to(whole)
            return whole


def _of_shards(tensor: torch.Tensor) -> torch.Tensor:
    """FSDP2's may be in the memory of the host, while only devices exchange them."""
    if not isinstance(tensor, DTensor):
        return tensor
    found: torch.Tensor = tensor.to(AcceleratorState().device).full_tensor()
    return found


def _gathered(held: Sequence[torch.Tensor]) -> ContextManager[Any]:
    """A block in which parts of ZeRO 3 are whole."""
    parts = [one for one in held if hasattr(one, "ds_id")]
    if not parts:
        return nullcontext()
    from deepspeed import zero

    block: ContextManager[Any] = zero.GatheredParameters(parts)
    return block


Named = Sequence[Tuple[str, Whole]]


def bare(model: Any) -> Any:
    """Without what runs it on several ranks, or compiles it."""
    return extract_model_from_parallel(model, keep_torch_compile=False)


def base_of(model: Any) -> Any:
    """The model itself, of one that PEFT has put adapters into."""
    return model.get_base_model() if hasattr(model, "peft_config") else model


def whole_of(model: Any, *, merged: bool = True) -> Named:
    """The tensors of a checkpoint, by name; of two names of one tensor the first. ``merged``: the adapter is added to them."""
    base = base_of(model)
    seen: Set[int] = set()
    found: List[Tuple[str, Whole]] = []
    for name, held in base.state_dict(keep_vars=True).items():
        if ADAPTER in name or id(held) in seen:
            continue
        seen.add(id(held))
        place, _, of_layer = name.rpartition(".base_layer.")
        layer = base.get_submodule(place) if merged and place and of_layer == "weight" else None
        found.append((name.replace(".base_layer.", "."), Whole(held, layer)))
    return found


def adapter_of(model: Any) -> Named:
    """Under PEFT's names."""
    return [(name, Whole(held)) for name, held in model.named_parameters() if ADAPTER in name]


def collected(tensors: Named) -> Dict[str, torch.Tensor]:
    """All of them in the memory of rank 0's host; of the others none."""
    found: Dict[str, torch.Tensor] = {}
    for name, one in tensors:
        whole = one.full_tensor()
        if PartialState().is_main_process:
            found[name] = whole.cpu()
    return found
