"""``orchestrator.toml``: the settings of prime-rl's orchestrator that mean something here, and a table of our own."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, Mapping, Optional

import msgspec

from ..sampling import check_sampling

OWN = "durable_rollouts"


class _Strict(msgspec.Struct, forbid_unknown_fields=True):  # type: ignore[misc, call-arg]
    """A field without a meaning here is refused by its name."""


class Own(_Strict):
    """What ``Client.stream`` takes. Its id names the training; ``take_over`` takes the service from another one, once."""

    stream: str
    request: Dict[str, Any]
    take_over: bool = False


class Model(_Strict):
    name: Optional[str] = None


class Sampling(_Strict):
    temperature: float = 1.0
    max_completion_tokens: int = 512


class Train(_Strict):
    sampling: Sampling = msgspec.field(default_factory=Sampling)
    filter_zero_advantages: bool = True


class Resume(_Strict):
    step: Optional[int] = None


class Settings(_Strict):
    """Under prime-rl's own names, with its defaults."""

    durable_rollouts: Own
    batch_size: int
    group_size: int = 1
    output_dir: Path = Path("outputs")
    seq_len: int = 2048
    num_train_workers: int = 1
    pad_to_multiple_of: int = 1
    max_steps: Optional[int] = None
    model: Model = msgspec.field(default_factory=Model)
    train: Train = msgspec.field(default_factory=Train)
    resume: Optional[Resume] = None
    algo: Optional[Dict[str, Any]] = None
    weight_broadcast: Optional[Dict[str, Any]] = None
    rollout_transport: Optional[Dict[str, Any]] = None
    # Without a meaning for rollouts that another system plays.
    log: Any = None
    env_vars: Any = None
    monitors: Any = None
    tokenizer: Any = None
    ckpt: Any = None
    max_off_policy_steps: Any = None

    @property
    def first(self) -> int:
        """The step that the trainer begins with; it counts from 1."""
        if self.resume is None:
            return 1
        there = [int(one.name.partition("_")[2]) for one in (self.output_dir / "checkpoints").glob("step_*")]
        return 1 + (max(there, default=0) if self.resume.step is None else self.resume.step)


def settings_of(given: Mapping[str, Any]) -> Settings:
    """Raises ``ValueError``, which names the setting."""
    try:
        settings: Settings = msgspec.convert(given, Settings, dec_hook=lambda _, path: Path(path))
    except msgspec.ValidationError as error:
        raise ValueError(f"{error}; samples, environments and engines are in {OWN}.request and temporal.yaml") from error
    for name, default in (("weight_broadcast", "filesystem"), ("rollout_transport", "zmq")):
        kind = (getattr(settings, name) or {}).get("type", default)
        if kind != "filesystem":
            raise ValueError(f'{name}.type: expected "filesystem", here and in the trainer\'s own file, got {kind!r}')
    if settings.algo not in (None, {"type": "grpo"}):
        raise ValueError(f'algo: expected type = "grpo" alone, whose advantage is the reward minus its group\'s mean, got {settings.algo}')
    settings.output_dir = settings.output_dir.resolve()
    settings.durable_rollouts.request = _request(settings, settings.durable_rollouts.request)
    return settings


def _request(settings: Settings, given: Dict[str, Any]) -> Dict[str, Any]:
    """The request of the stream. It may repeat the other settings, but not differ from them."""
    groups, rest = divmod(settings.batch_size, max(settings.group_size, 1))
    if groups == 0 or rest != 0:
        raise ValueError("batch_size: expected whole groups of group_size")
    longest = given.get("max_seq_len", settings.seq_len)
    if longest > settings.seq_len:
        raise ValueError(f"{OWN}.request.max_seq_len: expected at most seq_len = {settings.seq_len}, at which prime-rl cuts, got {longest}")
    sampling, zeros = settings.train.sampling, settings.train.filter_zero_advantages
    of_generation = {"temperature": sampling.temperature, "max_new_tokens": sampling.max_completion_tokens}
    fixed = {"groups_per_step": groups, "num_repeats": settings.group_size, "filter": "zero_variance" if zeros else None}
    generation = given.get("generation", {})
    for where, said, meant in (("", given, fixed), ("generation.", generation, of_generation)):
        for name, value in meant.items():
            if said.get(name, value) != value:
                raise ValueError(f"{OWN}.request.{where}{name}: expected {value!r}, as the other settings say, got {said[name]!r}")
    check_sampling({**generation, **of_generation}, sampling.temperature, where=f"{OWN}.request.generation.")
    return {**given, **fixed, "max_seq_len": longest, "generation": {**generation, **of_generation}}
