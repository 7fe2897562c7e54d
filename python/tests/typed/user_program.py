"""What programs of users do, for ``mypy --strict`` and ``pyright``: it is checked against the installed package, not run."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from statistics import fmean
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, cast

import durable_rollouts
import numpy as np
import numpy.typing as npt
from durable_rollouts import (
    Arrays,
    BatchRequest,
    Client,
    Group,
    InvalidBatchRequest,
    LocalError,
    PublishResult,
    RolloutFault,
    Row,
    RowColumns,
    StreamEnded,
    StreamRequest,
    gym,
    local,
    to_arrays,
)
from durable_rollouts.aio import Client as AsyncClient
from rollout_environment import Isolated, Unavailable, create_server
from rollout_environment.retriever import Document, Retriever


def questions() -> Iterator[Dict[str, str]]:
    yield {"question": "6 times 7?", "answer": "42"}


def batches(client: Client) -> List[float]:
    request: BatchRequest = {
        "samples": questions(),
        "num_repeats": 8,
        "generation": {"temperature": 0.7, "max_new_tokens": 256, "stop_strings": ["\n\n"]},
        "completion": {"policy": "min_k", "k": 4, "deadline": "10m"},
        "rollout_timeout": "30m",
        "metadata": {"step": 17},
    }
    columns = {"question": "prompt", "answer": "extra_env_info.ground_truth"}
    try:
        batch = client.start_batch(request, "step-17", columns=columns, task_name="math")
    except InvalidBatchRequest as fault:
        raise SystemExit(f"{fault.type}: {fault}") from fault
    means: List[float] = []
    for group in batch.groups(show=True):
        means.append(mean_of(group))
    progress = batch.progress()
    if progress["phase"] == "running" and progress["waiting"] is not None:
        print(progress["waiting"]["service"], progress["elapsed_s"] + progress["tokens_per_s"])
    result = batch.wait(timeout=60.0)
    completed: int = result["counts"]["completed"]
    reward: Optional[float] = result["metrics"].get("total_reward/mean")
    folder: Path = Path(result["files"]["rollouts"]).parent
    print(batch.id, completed, reward, folder)
    limits = batch.set_limits(max_new_tokens=128)
    tokens: int = limits["max_new_tokens"]
    batch.set_max_in_flight(tokens)
    why: Counter[str] = Counter(failure_of(row) for row in batch.failures())
    print(why.most_common(1))
    print([one.id for one in client.batches() if one.state == "running" and one.ended is None])
    batch.stop()
    return means


def mean_of(group: Group) -> float:
    return fmean(group.rewards) if group.rewards else 0.0


def failure_of(row: Row) -> str:
    columns = cast(RowColumns, row)
    return columns["failure"]["type"] if "failure" in columns else "none"


def sampled(row: Row) -> List[Tuple[int, float]]:
    columns = cast(RowColumns, row)
    found: List[Tuple[int, float]] = []
    for message in columns["message_log"]:
        found += zip(message["token_ids"], message.get("generation_logprobs", []))
    return found


def arrays(rows: Sequence[Row]) -> npt.NDArray[np.float32]:
    padded: Arrays = to_arrays(rows, pad_id=0, length=512, require_logprobs=True)
    groups: npt.NDArray[np.int64] = padded.group_ids
    baseline = np.array([padded.rewards[groups == group].mean() for group in groups], np.float32)
    advantages: npt.NDArray[np.float32] = padded.rewards - baseline
    print(len(padded), padded.logprobs.shape, list(padded.torch()))
    return advantages[:, None] * padded.loss_mask


def trainer(client: Client) -> None:
    request: StreamRequest = {"samples": {"path": "train.jsonl"}, "groups_per_step": 4, "num_repeats": 8, "max_lag": 2}
    stream = client.stream("run-3", request)
    policy = client.policy()
    version = 0
    while True:
        try:
            step = stream.next_step(version, version=version, on_wait=print)
        except StreamEnded:
            break
        rows: List[Row] = step.rows()
        arrays(rows)
        lag: float = step.metrics.get("lag/max", 0.0)
        number: int = step.result["step"]
        print(lag, number, step.notes, step.final, step.failures())
        version += 1
        published: PublishResult = policy.publish(version, f"/checkpoints/{version}", order="rolling", max_unavailable=2)
        states: List[str] = [replica["state"] for replica in published["replicas"].values()]
        print(states, published["paused_s"])
        stream.forget(version - 1)
    progress = stream.progress()
    behind: Optional[int] = progress["lag"]
    delivered: int = progress["out"]["delivered"]
    print(progress["why"], behind, delivered, [one["rollouts"] for one in stream.failures().values()])
    record = policy.status()["record"]
    print(record["replicas"] if record is not None else "nothing was published")
    stream.stop()


async def together(ids: Sequence[str]) -> List[float]:
    client = await AsyncClient.connect("127.0.0.1:7233", namespace="default", task_queue="rollouts")

    async def mean(id: str) -> float:
        rewards: List[float] = []
        async for group in client.batch(id).groups():
            rewards += group.rewards
        return fmean(rewards)

    return await asyncio.gather(*(mean(id) for id in ids))


def brevity(reply: str, sample: Dict[str, Any]) -> float:
    return -len(reply) / float(sample.get("limit", 100))


class Returned(NamedTuple):
    observations: List[Dict[str, str]]
    metadata: List[Optional[Dict[str, Any]]]
    next_stop_strings: List[Optional[List[str]]]
    rewards: List[float]
    terminateds: List[bool]
    answers: Optional[List[Optional[str]]]


class Guess:
    """An environment as NeMo RL has them."""

    def step(self, message_log_batch: List[List[Dict[str, Any]]], metadata: List[Dict[str, Any]]) -> Returned:
        if not metadata:
            raise Unavailable("the list of words is being loaded")
        rewards = [float(log[-1]["content"] == state["word"]) for log, state in zip(message_log_batch, metadata)]
        return Returned(
            [{"role": "environment", "content": "no"} for _ in rewards],
            [*metadata],
            [None for _ in rewards],
            rewards,
            [reward > 0 for reward in rewards],
            None,
        )


def on_this_machine() -> None:
    try:
        with local(environments={"short": brevity, "guess": Guess, "object": Guess(), "named": "guess:Guess"}) as client:
            print(client.ui_url, client.viewer_url, client.address, client.folder / "temporal.yaml")
            batch = client.start_batch({"samples": ["Say hello."], "num_repeats": 2}, "hello", task_name="short")
            rows = batch.rows()
            print(to_arrays(rows))
    except LocalError as error:
        print(error)
    except RolloutFault as fault:
        print(fault.type)


def offline() -> List[str]:
    store = durable_rollouts.open(Path(".rollouts") / "trajectories")
    newest = store.batches()[0]
    kinds: List[str] = []
    for row, repeat in newest.rollouts():
        kinds += [line["kind"] for line in newest.journal(row, repeat)]
    result = newest.result
    if result is not None and not newest.is_stream:
        print(result["counts"]["requested"], newest.created.isoformat(), newest.request["num_repeats"])
    for step in newest.steps():
        print(newest.step(step).result["version"], newest.groups(), newest.samples()[0])
    return kinds


async def collections() -> List[Tuple[Dict[str, Any], float]]:
    done = gym.collect(
        input_jsonl_fpath=Path("in.jsonl"),
        output_jsonl_fpath="out.jsonl",
        agent_name="my_agent",
        num_repeats={"my_agent": 2, "_default": 1},
        head_server={"port": 11000},
    )
    metrics: Optional[Path] = gym.aggregate(input_glob=[done.rollouts], output_jsonl_fpath="all.jsonl", merge_shards=False)
    print(metrics, done.failures, done.aggregate_metrics)
    rewards: List[Tuple[Dict[str, Any], float]] = []
    try:
        for ended in gym.run_examples(done.results(), {"host": "h", "port": 1}, num_samples_in_parallel=8):
            row, result = await ended
            rewards.append((row, result["reward"]))
    except gym.RowFailed as failed:
        print(failed.row, failed.failure)
    except gym.CollectionFailed as failed_command:
        print(failed_command.code)
    return rewards


def serve(port: int) -> None:
    server = create_server(Isolated("guess:Guess", timeout=30), port=port, token="secret-token")
    try:
        server.serve_forever()
    finally:
        server.shutdown()


def search(text: str) -> List[Tuple[int, float]]:
    found: List[Document] = Retriever("/data/wiki", split="train").search(text, num_results=3)
    return [(document.id, document.score) for document in found if document.text]


def main() -> None:
    print(durable_rollouts.__version__)
    client = Client.connect(profile="cluster")
    print(batches(client), sampled(client.batch("step-17").rows()[0]))
    trainer(client)
    print(asyncio.run(together(["step-16", "step-17"])))


if __name__ == "__main__":
    main()
