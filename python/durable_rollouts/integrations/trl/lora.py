"""Which models can be published, which adapters engines load, and on which weights."""

from __future__ import annotations

from typing import Any, Literal, Optional

import torch

from ...answers import PolicyRecord

Kind = Literal["auto", "lora", "checkpoint"]
"""What is published of a model with an adapter."""

PLAIN = {
    **dict.fromkeys(("modules_to_save", "trainable_token_indices", "target_parameters", "layer_replication", "alora_invocation_tokens")),
    **dict.fromkeys(("arrow_config", "kasa_config", "monteclora_config", "use_bdlora")),
    **dict.fromkeys(("use_dora", "use_qalora", "lora_bias"), False),
    "bias": "none",
}
"""Fields of PEFT's ``LoraConfig`` with the only value of which engines know the meaning."""
CHANGES_BASE = ("pissa", "olora", "corda", "loftq")
"""Ways to begin an adapter that change the weights below it, of which engines know nothing."""


def check_model(model: Any, kind: Kind) -> None:
    """Raises ``ValueError``, which names the setting."""
    for name, one in model.named_parameters():
        if not one.is_floating_point():
            raise ValueError(f"dtype: expected weights of floating-point numbers, got {one.dtype} of {name}: quantised ones cannot be published")
    if hasattr(model, "peft_config"):
        check_adapter(model)
    elif kind == "lora":
        raise ValueError("kind: expected auto or checkpoint for a model without peft_config, got 'lora'")


def check_adapter(model: Any) -> None:
    """Raises ``ValueError``, which names the setting."""
    [name, *others] = model.active_adapters
    config = model.peft_config[name]
    kind = str(getattr(config.peft_type, "value", config.peft_type))
    if others or kind != "LORA":
        raise ValueError(f"peft_config: expected one active adapter, of type LORA, got {[name, *others]} of {kind}: engines load nothing else")
    for field, only in PLAIN.items():
        if getattr(config, field, only) not in (only, None, [], {}):
            raise ValueError(f"peft_config.{field}: expected {only!r}: engines load an adapter without it; got {getattr(config, field)!r}")
    begins = str(config.init_lora_weights).lower()
    if begins.startswith(CHANGES_BASE):
        raise ValueError(f"peft_config.init_lora_weights: expected one that leaves the model's own weights as they are, got {begins!r}")
    for place, module in model.get_base_model().named_modules():
        if hasattr(module, "base_layer") and isinstance(module.base_layer, torch.nn.Embedding):
            raise ValueError(f"peft_config.target_modules: expected no embeddings, whose adapters engines do not load; got {place}")


def path_below(record: Optional[PolicyRecord]) -> Optional[str]:
    """The files of the weights that an adapter would be put on: "": nobody has them. None: those that engines start with."""
    version = None if record is None else record["version"]
    if record is None or version is None:
        return None
    known = record["weights"][str(version)]
    base = known.get("base") if known["kind"] == "lora" else version
    below = None if base is None else record["weights"].get(str(base))
    return None if base is None else "" if below is None else below.get("path", "")
