"""SkyRL's settings: what rollouts get of them, and those that do not fit. Needs no SkyRL.

cfg: ``DurableTrainConfig``
"""

from __future__ import annotations

from functools import reduce
from typing import Any, Dict, Iterator, Tuple

from ...starting import check_id
from ..sampling import check_sampling, check_unsaid

SAMPLING = {
    "max_generate_length": "max_new_tokens", "stop": "stop_strings",
    **{name: name for name in ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")},
}
"""What SkyRL's own settings say of sampling, and its name in ``generation``."""
OWN = {**{SAMPLING[name]: f"generator.sampling_params.{name}" for name in SAMPLING}, "chat_template_kwargs": "generator.chat_template_kwargs"}
GROUPED = ("grpo", "rloo", "maxrl")
"""Advantages that compare the rollouts of a prompt."""
ENGINES = "engines are those of temporal.yaml, and SkyRL starts none"
UNSET = {
    "trainer.placement.colocate_all": ENGINES,
    "trainer.fully_async.enabled": "its rollouts have no names under which a trainer that was killed finds them",
    "generator.inference_engine.external_proxy_url": ENGINES,
    "generator.inference_engine.external_server_urls": ENGINES,
    "generator.vision_language_generator": "rows have no pixels",
    "generator.zero_reward_on_non_stop": "rewards are the environment's",
    "generator.merge_stepwise_output": "an agent's sequences have each token once",
    "generator.chat_template.name_or_path": "engines have the template",
    "generator.sampling_params.additional_kwargs": "durable.settings.generation has the rest",
}
"""Settings that are false or absent, and why."""


def settings_of(cfg: Any, phase: str) -> Dict[str, Any]:
    """The settings of the rollouts of this phase."""
    sampling = cfg.generator.sampling_params if phase == "train" else cfg.generator.eval_sampling_params
    said = {SAMPLING[name]: getattr(sampling, name) for name in SAMPLING if getattr(sampling, name) is not None}
    template = {"chat_template_kwargs": dict(cfg.generator.chat_template_kwargs)} if cfg.generator.chat_template_kwargs else {}
    return {
        "max_rollout_turns": cfg.generator.max_turns,
        "max_seq_len": cfg.generator.max_input_length + sampling.max_generate_length,
        **({"overlong": "mask"} if cfg.generator.apply_overlong_filtering else {}),
        **cfg.durable.settings,
        "generation": {**cfg.durable.settings.get("generation", {}), **said, **template},
    }


def check_settings(cfg: Any) -> None:
    """Raises ``ValueError``, which names the setting, before anything of SkyRL's is started."""
    for name, expected in _expected(cfg):
        raise ValueError(f"{name}: expected {expected}; got {_at(cfg, name)!r:.80}")
    check_unsaid(cfg.durable.settings.get("generation", {}), OWN, trainer="SkyRL", where="durable.settings.generation.")
    check_sampling(settings_of(cfg, "train")["generation"], cfg.trainer.algorithm.temperature, where="generator.sampling_params.")
    check_id(f"{cfg.trainer.run_name}:eval1000000.1000:1000000-1000")


def _expected(cfg: Any) -> Iterator[Tuple[str, str]]:
    """Names of settings that do not fit, and what does."""
    policy, kind = cfg.trainer.policy, cfg.trainer.algorithm.advantage_estimator
    if not cfg.durable.weights:
        yield "durable.weights", "a folder that the trainer and the engines share"
    if policy.model.lora.rank > 0 and not (cfg.trainer.strategy == "megatron" and policy.megatron_config.lora_config.merge_lora):
        yield "trainer.policy.model.lora.rank", "0: the whole model is published"
    if cfg.generator.n_samples_per_prompt < (2 if kind in GROUPED else 1):
        yield "generator.n_samples_per_prompt", f"2 or more, which {kind} compares" if kind in GROUPED else "1 or more"
    for name, why in UNSET.items():
        if _at(cfg, name):
            yield name, f"{'false' if _at(cfg, name) is True else 'none'}: {why}"


def _at(cfg: Any, name: str) -> Any:
    return reduce(getattr, name.split("."), cfg)
