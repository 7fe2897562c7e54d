"""Fields of NeMo Gym's configuration as keyword arguments, and as arguments of ``temporal-rollout``."""

from __future__ import annotations

import difflib
import re
from typing import Any, Iterable, List, Mapping, Optional, Union

from typing_extensions import TypedDict

from ..faults import InvalidBatchRequest
from ..plain import plain


class GymFields(TypedDict, total=False):
    """Keys of Gym's global configuration: where things are, and where results are uploaded.

    config_paths: YAML files of Gym's configuration, merged in this order
    head_server: ``host`` and ``port`` of the head server, by default 127.0.0.1 and 11000
    default_host: the head server's host, where ``head_server`` has none
    observability_enabled, model_call_capture_dir: model calls that the servers captured are merged into results
    results_dir: folder of W&B's own files
    mlflow_tracking_uri, mlflow_experiment_name, mlflow_run_name, mlflow_tracking_token: the run of an MLflow server
    wandb_project, wandb_name, wandb_api_key: the run of W&B, which needs the package ``wandb``
    """

    config_paths: List[str]
    head_server: Mapping[str, Any]
    default_host: str
    observability_enabled: bool
    model_call_capture_dir: str
    results_dir: str
    mlflow_tracking_uri: str
    mlflow_experiment_name: str
    mlflow_run_name: str
    mlflow_tracking_token: str
    wandb_project: str
    wandb_name: str
    wandb_api_key: str


class ExampleFields(GymFields, total=False):
    """What ``run_examples`` takes beside them.

    agent_name: for rows without ``agent_ref``
    num_samples_in_parallel: ``/run`` calls at once; None and 0: unlimited
    responses_create_params: laid over each row's, field by field; a nested object replaces the row's whole
    """

    agent_name: Optional[str]
    num_samples_in_parallel: Optional[int]
    responses_create_params: Mapping[str, Any]


class CollectFields(ExampleFields, total=False):
    """What ``collect`` takes beside them.

    limit: the first lines only; None and 0: all
    num_repeats: rollouts of each row, or by agent: ``{"a": 32, "_default": 1}``
    num_repeats_add_seed: repeat r is generated with seed r
    prompt_config: a prompt's YAML file, for rows without an input
    skills: ``path`` of a directory of skills
    resume_from_cache: continues a collection: rows with a result are not played again
    disable_aggregation: no aggregate metrics, as of a shard
    require_complete: it fails while a row has no result, whatever ``route_failures_to_sidecar`` says
    interleave_repeats: starts the repeats round by round, not those of each row one behind the other
    max_resident_rollout_tasks: a further limit of ``/run`` calls at once
    route_failures_to_sidecar: rows that failed are no error; they are in the failures file in any case
    upload_rollouts, upload_rollouts_to_wandb: results are uploaded, too, where a server is named; the second is the old name
    """

    limit: Optional[int]
    num_repeats: Union[int, Mapping[str, int], None]
    num_repeats_add_seed: bool
    prompt_config: Optional[str]
    skills: Optional[Mapping[str, str]]
    resume_from_cache: bool
    disable_aggregation: bool
    require_complete: bool
    interleave_repeats: bool
    max_resident_rollout_tasks: Optional[int]
    route_failures_to_sidecar: bool
    upload_rollouts: bool
    upload_rollouts_to_wandb: bool


class AggregateFields(GymFields, total=False):
    """What ``aggregate`` takes beside them.

    merge_shards: writes the merged results
    """

    merge_shards: bool


def overrides(call: str, fields: Mapping[str, Any], known: Iterable[str]) -> List[str]:
    """As arguments, ``+field=value``. An unknown one is a ``TypeError`` that names the nearest."""
    names = list(known)
    for name in fields:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"did you mean {near[0]}?" if near else f"other keys of Gym's configuration: arguments=[\"+{name}=…\"]"
            raise TypeError(f"{call}: unknown field {name!r}; {hint}")
    return [f"+{name}={value_text(plain(value, of=name, fault=InvalidBatchRequest))}" for name, value in fields.items()]


def value_text(value: Any) -> str:
    """Plain JSON in Hydra's override grammar, as ``gym/config/override-value.ts`` reads it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, list):
        return "[" + ",".join(map(value_text, value)) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{_quoted(key)}:{value_text(one)}" for key, one in value.items()) + "}"
    return repr(value)


def _quoted(text: str) -> str:
    """Backslashes count only before the quote."""
    inner = re.sub(r"(\\*)'", lambda found: found[1] * 2 + "\\'", text)
    return "'" + re.sub(r"\\+\Z", lambda found: found[0] * 2, inner) + "'"
