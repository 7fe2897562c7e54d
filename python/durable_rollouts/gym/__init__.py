"""NeMo Gym's rollout collection, as calls: ``temporal-rollout collect`` and ``aggregate`` of this installation.

    from durable_rollouts import gym

    done = gym.collect(input_jsonl_fpath="in.jsonl", output_jsonl_fpath="out/rollouts.jsonl", agent_name="my_agent", num_repeats=4)
    print(done.aggregate_metrics)

Fields, defaults, files and texts are those of the commands, and so is what survives a lost process.
"""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Tuple, Union, cast

from typing_extensions import Unpack

from .examples import RowFailed, played
from .fields import AggregateFields, CollectFields, ExampleFields, overrides
from .program import CollectionFailed, Program

__all__ = ["Collection", "CollectionFailed", "RowFailed", "aggregate", "collect", "run_examples"]

Place = Union[str, "os.PathLike[str]"]


class Collection(NamedTuple):
    """The files of a collection that has ended.

    rollouts: the results, one JSON object a line, as they ended
    materialized_inputs: the rows as they were sent
    failures: rows that failed, with ``_ng_failure_class`` and ``error``; the file may not be there
    aggregate_metrics: an entry for each agent; None: none were computed
    """

    rollouts: Path
    materialized_inputs: Path
    failures: Path
    aggregate_metrics: Optional[Path]

    def results(self) -> List[Dict[str, Any]]:
        """All results, in the order of their tasks and rollouts, as upstream's ``run_from_config`` returns them.

        Returns them in memory. Raises ``OSError`` where the file is gone.
        """
        with open(self.rollouts, encoding="utf8") as file:
            found = list(_results(file))
        return sorted(found, key=lambda one: (one["_ng_task_index"], one["_ng_rollout_index"]))


def _results(lines: Iterable[str]) -> Iterator[Dict[str, Any]]:
    """A process that was killed may have left a torn line."""
    for line in lines:
        try:
            result = json.loads(line)
        except ValueError:
            continue
        if isinstance(result, dict) and "_ng_task_index" in result:
            yield result


def collect(
    *,
    input_jsonl_fpath: Place,
    output_jsonl_fpath: Place,
    config: Optional[Place] = None,
    arguments: Iterable[str] = (),
    show: bool = True,
    **fields: Unpack[CollectFields],
) -> Collection:
    """Plays the rows of a file, as upstream's ``RolloutCollectionHelper().run_from_config`` and ``temporal-rollout collect``
    do, and waits for their end. Ctrl-C interrupts it in order; ``resume_from_cache=True`` continues.

    input_jsonl_fpath: the rows, one JSON object a line
    output_jsonl_fpath: the results; the other files are named after it
    config: a deployment's temporal.yaml, whose workers play the rows; None: a Temporal server and a worker of its own
    arguments: further ones of the command: ``["--run-timeout", "30m", "+judge_url=http://judge"]``
    show: what the command says goes to standard error
    fields: of Gym's configuration: ``help(durable_rollouts.gym.fields)``

    Returns the files. Raises ``CollectionFailed`` with the command's words, also where rows failed (not with
    ``route_failures_to_sidecar``; the files are there), ``TypeError`` for an unknown field, ``InvalidBatchRequest`` for a
    value that JSON lacks, and ``LocalError`` without the project's programs.
    """
    given: Dict[str, Any] = {"input_jsonl_fpath": input_jsonl_fpath, "output_jsonl_fpath": output_jsonl_fpath, **fields}
    known = ["input_jsonl_fpath", "output_jsonl_fpath", *CollectFields.__annotations__]
    own = [] if config is None else ["--config", os.fspath(config)]
    has_metrics = _run(["collect", *own, *arguments, *overrides("collect", given, known)], show=show)
    output = Path(output_jsonl_fpath).absolute()
    metrics = _beside(output, "_aggregate_metrics.json") if has_metrics else None
    return Collection(output, _beside(output, "_materialized_inputs.jsonl"), _beside(output, "_failures.jsonl"), metrics)


def aggregate(
    *,
    input_glob: Union[str, Iterable[Place]],
    output_jsonl_fpath: Place,
    arguments: Iterable[str] = (),
    show: bool = True,
    **fields: Unpack[AggregateFields],
) -> Optional[Path]:
    """Joins result files and computes their metrics, as upstream's ``RolloutAggregationHelper().run_from_config`` and
    ``temporal-rollout aggregate`` do. It needs no Temporal server.

    input_glob: patterns of the files
    output_jsonl_fpath: the merged results; the file of metrics is named after it
    arguments: further ones of the command: ``["--answer-key", "answer"]``
    show: what the command says goes to standard error
    fields: of Gym's configuration: ``help(durable_rollouts.gym.fields)``

    Returns the file of metrics; None: there were no results. Raises ``CollectionFailed`` with the command's words,
    ``TypeError`` for an unknown field, and ``LocalError`` without the project's programs.
    """
    patterns = input_glob if isinstance(input_glob, str) else ",".join(os.fspath(one) for one in input_glob)
    given: Dict[str, Any] = {"input_glob": patterns, "output_jsonl_fpath": output_jsonl_fpath, **fields}
    known = ["input_glob", "output_jsonl_fpath", *AggregateFields.__annotations__]
    has_metrics = _run(["aggregate", *arguments, *overrides("aggregate", given, known)], show=show)
    return _beside(Path(output_jsonl_fpath).absolute(), "_aggregate_metrics.json") if has_metrics else None


def run_examples(
    examples: Iterable[Mapping[str, Any]],
    head_server_config: Any = None,
    *,
    output_jsonl_fpath: Optional[Place] = None,
    config: Optional[Place] = None,
    arguments: Iterable[str] = (),
    show: bool = True,
    **fields: Unpack[ExampleFields],
) -> Iterator["asyncio.Future[Tuple[Dict[str, Any], Dict[str, Any]]]"]:
    """Plays rows of this process, each once, as upstream's ``RolloutCollectionHelper().run_examples`` does. It needs a
    running event loop, and begins with the first that is taken.

    examples: rows with ``responses_create_params`` and ``agent_ref``
    head_server_config: an object, or a dictionary, with ``host`` and ``port`` of the head server
    output_jsonl_fpath: keeps the files; given again with the same rows, it continues. None: they are deleted
    config, arguments, show: as in ``collect``
    fields: ``num_samples_in_parallel`` in place of upstream's ``semaphore``, and others: ``help(durable_rollouts.gym.fields)``

    Returns what is to be awaited, one for each row, in the order in which they end: ``(row, result)``. The row is the one
    that was given, the result has ``_ng_task_index`` and ``_ng_rollout_index`` beside the agent's answer. Raises
    ``TypeError`` for an unknown field. Awaiting raises ``RowFailed``, for that row alone, or ``CollectionFailed``.

        for ended in gym.run_examples(rows, num_samples_in_parallel=64):
            row, result = await ended
    """
    given: Dict[str, Any] = {**fields}
    if head_server_config is not None:
        given["head_server"] = _address(head_server_config)
    own = [] if config is None else ["--config", os.fspath(config)]
    args = ["collect", *own, *arguments, *overrides("run_examples", given, ExampleFields.__annotations__)]
    rows = [cast(Dict[str, Any], row) for row in examples]
    return played(rows, args, output=None if output_jsonl_fpath is None else Path(output_jsonl_fpath), show=show)


def _address(given: Any) -> Dict[str, Any]:
    if isinstance(given, Mapping):
        return {"host": given["host"], "port": given["port"]}
    return {"host": given.host, "port": given.port}


def _run(args: List[str], *, show: bool) -> bool:
    """Whether there are metrics, as the command says it at its end; a file may be of an earlier run."""
    said: List[str] = []

    def hear(line: str) -> None:
        if line.startswith("Aggregate metrics: "):
            said.append(line)

    Program(show=show, heard=hear).run(args)
    return said != [] and said[-1] not in ("Aggregate metrics: None", "Aggregate metrics: <no results>")


def _beside(output: Path, suffix: str) -> Path:
    """As upstream names the files of a collection."""
    return output.with_name(f"{output.stem}{suffix}")
