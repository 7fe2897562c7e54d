"""Rows of any shape as samples: which column is the prompt, and which the environment gets.

``src/model/sample-columns.ts`` has the same rules for ``temporal-rollout step``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Iterable, Iterator, List, Mapping, NoReturn, Optional, Tuple

from .faults import InvalidBatchRequest
from .plain import plain

OWN = ("message_log", "task_name", "stop_strings", "idx", "loss_multiplier", "length")
"""Columns of a sample that a column of a row may become as it is."""
TYPES: Dict[str, Tuple[Tuple[type, ...], str]] = {
    "length": ((int, float), "a number"),
    "loss_multiplier": ((int, float), "a number"),
    "stop_strings": ((list,), "a list of texts"),
    "task_name": ((str,), "text"),
}
"""What those of them contain that a data set's own columns may be called."""
PROMPT, ENVIRONMENT = "prompt", "extra_env_info"

PROMPTS = ("prompt", "messages", "question", "problem", "instruction", "query", "input", "text")
ANSWERS = ("ground_truth", "answer", "solution", "expected_answer", "target", "label")
"""What data sets call them, the likeliest first."""


@dataclass(frozen=True)
class Shape:
    """columns: the new name of a column of the rows. ``prompt``: text, or a list of messages; ``extra_env_info.NAME``: for
    the environment; or a column of samples. Columns without a new name stay as they are. task_name: of rows without one.
    """

    columns: Optional[Mapping[str, str]] = None
    task_name: Optional[str] = None

    def __post_init__(self) -> None:
        if self.task_name is not None and not isinstance(self.task_name, str):
            raise InvalidBatchRequest(f"task_name: expected text, got {self.task_name!r:.80}")
        if self.columns is not None:
            _check_columns(self.columns)

    def refuse_file(self) -> None:
        """Rows of a file are not read here."""
        given = [name for name in ("columns", "task_name") if getattr(self, name) is not None]
        if given:
            raise InvalidBatchRequest(
                f'{given[0]}: expected rows as samples, got a file, whose rows are samples already; read it here: '
                "samples: (json.loads(line) for line in open(file))"
            )

    def samples(self, rows: Any) -> Iterator[Any]:
        """The sample of each row, as plain JSON. Raises ``InvalidBatchRequest``, which names row and column."""
        if not isinstance(rows, Iterable) or isinstance(rows, (str, bytes)) or _is_table(rows):
            _refuse_rows(rows)
        return self._samples(rows)

    def _samples(self, rows: Iterable[Any]) -> Iterator[Any]:
        for at, row in enumerate(rows):
            yield self._sample(plain(row, of=f"samples.{at}", fault=InvalidBatchRequest), f"samples.{at}")

    def _sample(self, row: Any, where: str) -> Any:
        if isinstance(row, str) and self.task_name is not None:
            return self._with_task({"message_log": _messages(row, where)})
        if not isinstance(row, dict):
            return row
        sample = row if self.columns is None else _renamed(row, self.columns, where)
        _check_own(sample, where)
        if "message_log" not in sample:
            _guess(row, where, needs_task=self.task_name is None and "task_name" not in sample)
        return self._with_task(sample)

    def _with_task(self, sample: Dict[str, Any]) -> Dict[str, Any]:
        if self.task_name is None or sample.get("task_name") is not None:
            return sample
        return {**sample, "task_name": self.task_name}


def _check_own(sample: Mapping[str, Any], where: str) -> None:
    """Columns of a data set may be called as those of samples are: a worker would say it later, and of each row."""
    for name, (types, expected) in TYPES.items():
        value = sample.get(name)
        if value is None or (isinstance(value, types) and not isinstance(value, bool)):
            continue
        raise InvalidBatchRequest(
            f"{where}.{name}: expected {expected}, which a sample has there, got {value!r:.80}; a column of your own: "
            f"columns={{{name!r}: {f'{ENVIRONMENT}.{name}'!r}}}"
        )


def _check_columns(columns: Any) -> None:
    if not isinstance(columns, Mapping):
        raise InvalidBatchRequest(f'columns: expected a dictionary such as {{"question": "prompt"}}, got {columns!r:.80}')
    taken: Dict[str, str] = {}
    for column, name in columns.items():
        is_known = isinstance(name, str) and (name in (PROMPT, *OWN) or name.startswith(f"{ENVIRONMENT}."))
        if not is_known:
            meant = f"; for the environment: {f'{ENVIRONMENT}.{name}'!r}" if isinstance(name, str) else ""
            raise InvalidBatchRequest(
                f"columns.{column}: expected {PROMPT}, {ENVIRONMENT}.NAME, {', '.join(OWN[:-1])} or {OWN[-1]}, got {name!r:.80}{meant}"
            )
        other = taken.setdefault("message_log" if name == PROMPT else name, column)
        if other != column:
            raise InvalidBatchRequest(f"columns: expected one column for {name}, got {other} and {column}")


def _renamed(row: Dict[str, Any], columns: Mapping[str, str], where: str) -> Dict[str, Any]:
    missing = [column for column in columns if column not in row]
    if missing:
        raise InvalidBatchRequest(f"{where}: expected column {missing[0]!r} (columns), got {_names(row)}")
    sample: Dict[str, Any] = {}
    given: Dict[str, Any] = {}
    for column, value in row.items():
        name = columns.get(column, column)
        if column not in columns and name in columns.values():
            continue  # The renamed one takes its place.
        if column in columns and name == PROMPT:
            sample["message_log"] = _messages(value, f"{where}.{column}")
        elif column in columns and name.startswith(f"{ENVIRONMENT}."):
            given[name[len(ENVIRONMENT) + 1 :]] = value
        else:
            sample[name] = value
    if given:
        sample[ENVIRONMENT] = {**(sample.get(ENVIRONMENT) or {}), **given}
    return sample


def _messages(prompt: Any, where: str) -> List[Any]:
    if isinstance(prompt, str):
        return [{"role": "user", "content": prompt}]
    if isinstance(prompt, list) and prompt and all(isinstance(one, dict) for one in prompt):
        return prompt
    raise InvalidBatchRequest(f"{where}: expected text or a list of messages as prompt, got {prompt!r:.80}")


def _guess(row: Dict[str, Any], where: str, *, needs_task: bool) -> None:
    """Raises an error with the columns that probably map the row. Any other row goes to the worker, which names what it lacks."""
    prompt = next((name for name in PROMPTS if name in row), None)
    if prompt is None:
        return
    answer = next((name for name in ANSWERS if name in row), None)
    columns = {prompt: PROMPT, **({} if answer is None else {answer: f"{ENVIRONMENT}.ground_truth"})}
    task = ', task_name="a key of environments in temporal.yaml"' if needs_task else ""
    raise InvalidBatchRequest(
        f"{where}: expected a sample, whose prompt is message_log, got columns {_names(row)}; probably columns={columns}{task} "
        f"maps them{_own_name(row, prompt, answer)}"
    )


def _own_name(row: Mapping[str, Any], prompt: str, answer: Optional[str]) -> str:
    """Columns without a new name do not reach the environment, and a reward of one's own may not read ``ground_truth``."""
    others = [name for name in row if name not in (prompt, ENVIRONMENT, "id", *OWN)]
    read = answer or next(iter(others), None)
    return "" if read is None else f"; a column that the environment reads by its own name: {read!r}: {f'{ENVIRONMENT}.{read}'!r}"


def _names(row: Mapping[str, Any]) -> str:
    return ", ".join(list(row)[:20]) or "none"


def _is_table(rows: Any) -> bool:
    """Iterating over one gives its columns, or its parts."""
    return hasattr(rows, "keys") or hasattr(rows, "columns")


def _refuse_rows(rows: Any) -> NoReturn:
    what = "expected a list, an iterable or a data set of rows"
    table = (
        '; rows of a table: to_dict("records") of pandas, to_dicts() of polars, to_pylist() of pyarrow, one split of a DatasetDict'
        if _is_table(rows)
        else '; a file below inputs_dir: {"path": …}'
    )
    raise InvalidBatchRequest(f"samples: {what}, got {type(rows).__name__} {rows!r:.60}{table}")
