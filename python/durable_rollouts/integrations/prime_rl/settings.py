"""``orchestrator.toml``: the settings of prime-rl's orchestrator that mean something here, and a table of our own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Mapping, Optional, cast

from ...requests import StreamRequest

OWN = "durable_rollouts"
UNUSED = ("log", "env_vars", "monitors", "tokenizer", "ckpt", "max_off_policy_steps")
"""Of prime-rl's own orchestrator, without a meaning for rollouts that another system plays."""


@dataclass(frozen=True)
class Settings:
    """stream, request: of ``Client.stream``. first: the step that the trainer begins with; it counts from 1."""

    output_dir: Path
    seq_len: int
    num_train_workers: int
    pad_to_multiple_of: int
    model: Optional[str]
    max_steps: Optional[int]
    temperature: float
    first: int
    stream: str
    request: StreamRequest


def settings_of(given: Mapping[str, Any]) -> Settings:
    """Raises ``ValueError``, which names the setting."""
    left = _Table("", given)
    own = _Table(f"{OWN}.", left.take(OWN, dict))
    output_dir = Path(left.take("output_dir", str, "outputs")).resolve()
    seq_len = left.take("seq_len", int, 2048)
    sampling, zeros = _train(_Table("train.", left.take("train", dict, {})))
    model = _Table("model.", left.take("model", dict, {}))
    for name in ("weight_broadcast", "rollout_transport"):
        kind = left.take(name, dict, {}).get("type", "filesystem" if name == "weight_broadcast" else "zmq")
        if kind != "filesystem":
            raise ValueError(f'{name}.type: expected "filesystem", here and in the trainer\'s own file, got {kind!r}')
    algo = left.take("algo", dict, {"type": "grpo"})
    if algo != {"type": "grpo"}:
        raise ValueError(f'algo: expected type = "grpo" alone, whose advantage is the reward minus its group\'s mean, got {algo}')
    groups, rest = divmod(left.take("batch_size", int), left.take("group_size", int, 1))
    if groups == 0 or rest != 0:
        raise ValueError("batch_size: expected whole groups of group_size")
    request = _request(own.take("request", dict), sampling, seq_len)
    fixed = {"groups_per_step": groups, "num_repeats": given.get("group_size", 1), "filter": zeros}
    for name, value in fixed.items():
        if request.setdefault(name, value) != value:
            raise ValueError(f"{OWN}.request.{name}: expected {value!r}, as the other settings say, got {request[name]!r}")
    settings = Settings(
        output_dir=output_dir,
        seq_len=seq_len,
        num_train_workers=left.take("num_train_workers", int, 1),
        pad_to_multiple_of=left.take("pad_to_multiple_of", int, 1),
        model=model.take("name", str, None),
        max_steps=left.take("max_steps", int, None),
        temperature=float(request["generation"]["temperature"]),
        first=1 + _checkpoint(left.take("resume", dict, None), output_dir),
        stream=own.take("stream", str),
        request=cast(StreamRequest, request),
    )
    for name in UNUSED:
        left.take(name, object, None)
    for table in (left, own, model):
        table.end()
    return settings


def _train(table: "_Table") -> Any:
    sampling = table.take("sampling", dict, {})
    zeros = "zero_variance" if table.take("filter_zero_advantages", bool, True) else None
    table.end()
    named = {"temperature": sampling.pop("temperature", 1.0), "max_new_tokens": sampling.pop("max_completion_tokens", 512)}
    _Table("train.sampling.", sampling).end()
    return named, zeros


def _request(given: Dict[str, Any], sampling: Dict[str, Any], seq_len: int) -> Dict[str, Any]:
    generation = given.get("generation", {})
    for name, value in sampling.items():
        if generation.get(name, value) != value:
            raise ValueError(f"{OWN}.request.generation.{name}: expected {value!r}, as train.sampling says, got {generation[name]!r}")
    longest = given.get("max_seq_len", seq_len)
    if longest > seq_len:
        raise ValueError(f"{OWN}.request.max_seq_len: expected at most seq_len = {seq_len}, at which prime-rl cuts, got {longest}")
    return {**given, "max_seq_len": longest, "generation": {**sampling, **generation}}


def _checkpoint(resume: Optional[Mapping[str, Any]], output_dir: Path) -> int:
    """The last step that the trainer has; 0: it begins."""
    if resume is None:
        return 0
    if "dir" in resume:
        raise ValueError("resume.dir: expected resume.step")
    there = [int(one.name.partition("_")[2]) for one in (output_dir / "checkpoints").glob("step_*")]
    return int(resume.get("step", max(there, default=0)))


class _Table:
    """What is left of a table."""

    def __init__(self, prefix: str, given: Mapping[str, Any]) -> None:
        self._prefix, self._left = prefix, dict(given)

    def take(self, name: str, kind: Any, *default: Any) -> Any:
        if name not in self._left and default:
            return default[0]
        value = self._left.pop(name, None)
        if not isinstance(value, kind) or (kind is int and (isinstance(value, bool) or value < 0)):
            raise ValueError(f"{self._prefix}{name}: expected a value of type {kind.__name__}, got {value!r}")
        return dict(value) if kind is dict else value

    def end(self) -> None:
        for name in self._left:
            raise ValueError(f"{self._prefix}{name}: expected none: it has no effect here; samples, environments and engines are in {OWN}.request and temporal.yaml")
