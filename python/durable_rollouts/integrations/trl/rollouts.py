"""``GRPOTrainer``: its ``rollout_func`` and its reward.

TRL hands over prompts alone, on each rank its part of the batch. A prompt's sample is found by its hash. The id of a
rollout is made of the step and of its place among all ranks, so a trainer that was killed asks for the same ones again.
"""

from __future__ import annotations

import hashlib
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Protocol, Sequence

from typing_extensions import Unpack

from ...faults import InvalidBatchRequest
from ...loop import run as _run
from ...plain import compact, plain
from ...requests import RolloutSettings
from ...results import Row
from ...shapes import Shape
from ...starting import check_id
from ...sync import Client
from ..replays import say_ended
from ..sampling import check_sampling
from ..singles import Places, have_ended, play
from .ranks import of_all_ranks, of_earlier_ranks
from .rows import check, columns_of

PROMPT = "prompt"


class Samples:
    """The sample of each prompt.

    rows: of the trainer's data set, each with its ``prompt``
    columns, task_name: as in ``Client.start_batch``; without ``columns`` a row that has no ``message_log`` gets it from
      ``prompt``
    """

    def __init__(self, rows: Iterable[Any], columns: Optional[Mapping[str, str]], task_name: Optional[str]) -> None:
        self._samples: Dict[str, Any] = {}
        for at, given in enumerate(rows):
            row = plain(given, of=f"rows.{at}", fault=InvalidBatchRequest)
            if not isinstance(row, dict) or PROMPT not in row:
                raise InvalidBatchRequest(f"rows.{at}: expected a column {PROMPT!r}, which TRL hands over, got {row!r:.80}")
            names = columns if columns is not None else {} if "message_log" in row else {PROMPT: PROMPT}
            [sample] = Shape(names, task_name).samples([row])
            if self._samples.setdefault(hash_of(row[PROMPT]), sample) != sample:
                raise InvalidBatchRequest(f"rows.{at}: another row has the same prompt, and other columns: TRL cannot tell them apart")
        if not self._samples:
            raise InvalidBatchRequest("rows: expected at least one")

    def of(self, prompt: Any) -> Any:
        """Raises ``InvalidBatchRequest`` for a prompt that no row has."""
        found = self._samples.get(hash_of(prompt))
        if found is None:
            raise InvalidBatchRequest(f"expected a prompt of the rows that Rollouts was made with, got {prompt!r:.200}")
        return found


def hash_of(prompt: Any) -> str:
    """Tables give every message every column; where a message has none, there is None."""
    return hashlib.sha256(compact(_without_none(plain(prompt, of=PROMPT, fault=InvalidBatchRequest)))).hexdigest()[:16]


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_none(one) for name, one in sorted(value.items()) if one is not None}
    return [_without_none(one) for one in value] if isinstance(value, list) else value


class Weights(Protocol):
    """The trainer's weights on their way to the engines: ``Publish``."""

    are_served: bool
    """The engines have them."""

    def bring(self, trainer: Any) -> None: ...

    def check(self, rows: List[Row]) -> None: ...


class Rollouts:
    """A ``rollout_func`` of ``GRPOTrainer``, which plays rollouts of this project. With ``use_vllm=False``: the engines are
    those of temporal.yaml, and get weights by ``Publish``.

    client: ``durable_rollouts.Client``
    rows: the trainer's data set, and its ``eval_dataset``: tables or lists, for all of them are read
    run: names this training; another training needs another name, or gets these rollouts
    columns, task_name: as in ``Client.start_batch``
    on_rows: called on rank 0 with its rows of a training step, and that step's number: ``export.wandb()``
    settings: fields of a batch: ``help(durable_rollouts.RolloutSettings)``

        rollouts = Rollouts(client, dataset, run="math-3", task_name="math", on_rows=export.wandb(), max_rollout_turns=4)
    """

    def __init__(
        self, client: Client, rows: Iterable[Any], *, run: str, columns: Optional[Mapping[str, str]] = None, task_name: Optional[str] = None,
        on_rows: Callable[[List[Row], int], Any] = lambda rows, step: None, **settings: Unpack[RolloutSettings],
    ) -> None:
        if not hasattr(rows, "__len__"):
            raise InvalidBatchRequest(f"rows: expected a table or a list, since all of it is read, got {type(rows).__name__}, which has no length")
        check_id(f"{run}:eval1000000.100:{'0' * 16}-1000")
        self._client = client
        self._samples = Samples(rows, columns, task_name)
        self.run = run
        self._on_rows = on_rows
        self._settings = settings
        self.weights: Optional[Weights] = None
        self.was_asked = False
        self._places = Places(run)

    def __call__(self, prompts: Sequence[Any], trainer: Any) -> Dict[str, List[Any]]:
        """What TRL expects of a ``rollout_func``, and ``rollout_reward``, ``rollout_id`` for reward functions. Raises a
        rollout's failure by name: a failure is no reward. Started again, the trainer asks for the same rollouts.
        """
        check_settings(trainer.args)
        check_sampling(self._settings.get("generation", {}), trainer.args.temperature)
        self.was_asked = True
        ids = self._ids(prompts, trainer)
        self._bring_weights(ids, trainer)
        rows = _run(play(self._client, [self._samples.of(prompt) for prompt in prompts], ids, self._settings))
        check(rows, temperature=trainer.args.temperature, own=self.weights)
        if trainer.model.training and trainer.state.is_world_process_zero:
            self._on_rows(rows, trainer.state.global_step)
        return columns_of(rows)

    def say_replays(self, step: int) -> None:
        """Logs which steps from this one on have rollouts that have ended: the trainer gets their rows again."""
        say_ended(self._client, self.run, step, anew="give Rollouts another run")

    def _ids(self, prompts: Sequence[Any], trainer: Any) -> List[str]:
        """The ids of this rank's rollouts."""
        place = self._places.next(trainer.state.global_step, kind="" if trainer.model.training else "eval")
        hashes = [hash_of(prompt) for prompt in prompts]
        before = of_earlier_ranks(hashes, trainer.accelerator)
        ids: List[str] = []
        for one in hashes:
            ids.append(f"{place}:{one}-{before[one]}")
            before[one] += 1
        return ids

    def _bring_weights(self, ids: List[str], trainer: Any) -> None:
        """Before anything is sampled. A trainer that continues from a checkpoint asks for rollouts that have ended, while
        those of a later step may be open: they go on with the weights that they began with.
        """
        weights = self.weights
        if weights is None or weights.are_served:
            return
        has_ended = have_ended(self._client, ids)
        ranks = trainer.accelerator
        if not all(of_all_ranks([has_ended], ranks)):
            weights.bring(trainer)
            ranks.wait_for_everyone()


def check_settings(args: Any) -> None:
    """Raises ``ValueError``, which names the setting."""
    if args.use_vllm:
        raise ValueError("use_vllm: expected False: engines of temporal.yaml play, and Publish gives them weights; got True")
    if args.mask_truncated_completions:
        why = 'TRL takes each completion that ends with an observation for truncated; give overlong="mask" to Rollouts'
        raise ValueError(f"mask_truncated_completions: expected False: {why}; got True")


def reward(prompts: Sequence[Any], completions: Sequence[Any], rollout_reward: Optional[List[float]] = None, **_: Any) -> List[float]:
    """A reward function for ``reward_funcs``: the environment's rewards, as ``Rollouts`` has them."""
    if rollout_reward is None or len(rollout_reward) != len(completions):
        raise ValueError("reward: expected rewards of rollout_func=Rollouts(…), got none; the trainer has another rollout_func")
    return rollout_reward
