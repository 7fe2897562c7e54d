"""``rollouts.arrow``: valid rollouts as numpy arrays that share the file's memory (docs/arrow.md)."""

from __future__ import annotations

import importlib
import json
import struct
from io import BytesIO
from itertools import groupby
from typing import Any, BinaryIO, Dict, Iterable, Iterator, List, Optional, Tuple

import numpy as np
from numpy.typing import NDArray

from .columns import failure_of, picture_of
from .faults import StoreFault
from .objects import contents_of, objects_of, path_of
from .tokens import MOST_ID, Group, Tokens, version_of

END = b"\xff\xff\xff\xff\x00\x00\x00\x00"
LISTS = {"input_ids": np.int32, "loss_mask": np.uint8, "logprobs": np.float32, "versions": np.int32}


class Sequences:
    """The sequences of valid rollouts, as ``rollouts.arrow`` has them: read once, and not copied.

    ``to_arrays`` and ``trajectories`` take it in place of rows. ``len(sequences)`` counts sequences: a rollout has one,
    or several where an agent's conversation branched. ``Batch.sequences``, ``Step.sequences`` and
    ``StoredBatch.sequences`` make one.

    table: the file's columns, as pyarrow reads them

        arrays = to_arrays(stream.next_step(0).sequences())
    """

    def __init__(self, table: Any) -> None:
        self._columns: Dict[str, List[Any]] = {}
        # A batch without valid rollouts has no object on S3.
        chunks = {name: table.column(name).chunks if table is not None else [] for name in [*LISTS, "rest"]}
        self._table = table
        self._lists = {name: _lists_of(chunks[name], kind) for name, kind in LISTS.items()}
        self._rest: List[Any] = [one for chunk in chunks["rest"] for one in chunk]
        self._pieces: Optional[Dict[str, Tuple[int, List[Any]]]] = None

    def __len__(self) -> int:
        return 0 if self._table is None else int(self._table.num_rows)

    def rows(self) -> List[Dict[str, Any]]:
        """The same rollouts as rows, equal to those of ``rollouts.jsonl`` but for the digits that float32 lacks.

        Returns them in input order. Raises nothing of its own.
        """
        return [self._row(places) for places in self._rollouts()]

    def _of(self, rollouts: Iterable[str]) -> "Sequences":
        """The sequences of these rollouts (ids), in the order of the file. They share its memory."""
        if self._pieces is None:
            self._pieces = _pieces_of(self._table)
        found = sorted((self._pieces[name] for name in rollouts if name in self._pieces), key=lambda one: one[0])
        return Sequences(self._table.from_batches([piece for _, pieces in found for piece in pieces]) if found else None)

    def _rollouts(self) -> Iterator[range]:
        starts = [at for at, sequence in enumerate(self._all("sequence")) if sequence == 0]
        yield from map(range, starts, [*starts[1:], len(self)])

    def _all(self, name: str) -> List[Any]:
        if name not in self._columns:
            self._columns[name] = [] if self._table is None else self._table.column(name).to_pylist()
        return self._columns[name]

    def _text(self, at: int) -> str:
        return str(self._rest[at].as_buffer().to_pybytes(), "utf-8")

    def _played(self, places: range) -> List[Tokens]:
        main = places[0]
        stop_reason = self._all("stop_reason")[main]
        name, head = self._all("rollout_id")[main], bytes(memoryview(self._rest[main].as_buffer())[:48])
        # Only these need what the columns do not have.
        needs_rest = len(places) > 1 or len(self._lists["input_ids"][main]) == 0 or self._all("group")[main] < 0 or self._may_have_pictures(main)
        rest: Dict[str, Any] = json.loads(self._text(main)) if needs_rest else {}
        logs = [rest, *rest.get("sequences", [])]
        others = logs[1:]
        return [
            Tokens(
                name=name if at == main else f"{name}, sequence {at - main}",
                rollout_id=name,
                row=self._all("row")[at],
                repeat=self._all("repeat")[at],
                sequence=at - main,
                trains=at == main or others[at - main - 1].get("train") is not False,
                group=self._group(main, rest),
                reward=self._all("total_reward")[at],
                loss_multiplier=self._all("loss_multiplier")[at],
                stop_reason=stop_reason,
                terminated=self._all("terminated")[at],
                truncated=self._all("truncated")[at],
                failure=failure_of({"stop_reason": stop_reason}),
                untokenized=rest.get("untokenized"),
                picture=picture_of(logs[at - main]),
                is_unknown=head.startswith(b'{"logprobs_mode":"unknown"'),
                prompt_tokens=self._all("prompt_tokens")[at] if at == main else _first_sampled(others[at - main - 1], len(self._lists["input_ids"][at])),
                ids=self._lists["input_ids"][at],
                mask=self._lists["loss_mask"][at],
                logprobs=self._lists["logprobs"][at],
                versions=self._versions(at, None if at == main else others[at - main - 1].get("policy_versions", [])),
            )
            for at in places
        ]

    def _may_have_pictures(self, at: int) -> bool:
        """Within a text of JSON each quote has a backslash in front of it, so no message's own words look like this."""
        rest = self._rest[at].as_buffer().to_pybytes()
        return any(name in rest for name in (b'"image_url"', b'"pictures"', b"input_image"))

    def _group(self, at: int, rest: Dict[str, Any]) -> Group:
        group = self._all("group")[at]
        if group >= 0:
            return "row", group
        info = rest.get("extra_env_info") or {}
        return rest.get("task_name"), info.get("agent"), info.get("task_index")

    def _versions(self, at: int, runs: Optional[List[Dict[str, Any]]]) -> NDArray[Any]:
        """32 bits hold them unless they are times in milliseconds, which only the row's own runs have."""
        versions: NDArray[Any] = self._lists["versions"][at]
        sampled = self._all("sampled_tokens")[at]
        if sampled == 0 or int(np.count_nonzero(versions != -1)) == sampled:
            return versions
        given = self._first(at, "policy_versions") if runs is None else runs
        if all(version_of(run.get("version")) <= MOST_ID for run in given):
            return versions
        wide = versions.astype(np.int64)
        places = self._sampled(at)
        for run in given:
            wide[places[run["start"] : run["end"]]] = version_of(run.get("version"))
        return wide

    def _sampled(self, at: int) -> NDArray[np.int64]:
        """Where the sampled ids of a sequence are, from the messages of its row."""
        main = at - self._all("sequence")[at]
        row = json.loads(self._text(main))
        log = row["message_log"] if at == main else row["sequences"][at - main - 1]["message_log"]
        start = self._all("prompt_tokens")[at]
        ranges = [np.arange(*one["token_ids"]) for one in log if one["token_ids"][0] >= start and _is_sampled(one)]
        return np.concatenate([np.zeros(0, np.int64), *ranges])

    def _first(self, at: int, name: str) -> Any:
        """``policy_versions``, which stands second in the rest: the text behind it is not parsed."""
        text = self._text(at)
        start = text.index(f'"{name}":') + len(name) + 3
        return json.JSONDecoder().raw_decode(text, start)[0]

    def _row(self, places: range) -> Dict[str, Any]:
        main = places[0]
        row: Dict[str, Any] = json.loads(self._text(main))
        for name in ("rollout_id", "row", "repeat", "total_reward", "stop_reason", "terminated", "truncated", "prompt_tokens"):
            row[name] = self._all(name)[main]
        if self._all("step")[main] is not None:
            row["step"] = self._all("step")[main]
        self._restore(row, main)
        for at, one in zip(places[1:], row.get("sequences", [])):
            one.update(parent=self._all("parent")[at], fork=self._all("fork")[at])
            self._restore(one, at)
        return row

    def _restore(self, sequence: Dict[str, Any], at: int) -> None:
        ids, logprobs = self._lists["input_ids"][at], self._lists["logprobs"][at]
        for message in sequence["message_log"]:
            start, end = message["token_ids"]
            message["token_ids"] = ids[start:end].tolist()
            if start >= self._all("prompt_tokens")[at] and "generation_logprobs" in message:
                message["generation_logprobs"] = logprobs[start:end].tolist()
        edges = np.flatnonzero(np.diff(self._lists["loss_mask"][at] > 0, prepend=False, append=False))
        sequence["train_mask"] = [{"start": int(start), "end": int(end)} for start, end in edges.reshape(-1, 2)]

    def __repr__(self) -> str:
        return f"Sequences({len(self)} of {self._all('sequence').count(0)} rollouts)"


def played_in(sequences: Sequences) -> List[List[Tokens]]:
    """The sequences of each rollout, the main one first."""
    return [sequences._played(places) for places in sequences._rollouts()]


def read_sequences(file: str, rollouts: Optional[int]) -> Sequences:
    """The whole file, or all objects that are one.

    rollouts: how many it has, by its ``metrics.json``; None: nobody says

    Returns it. Raises ``StoreFault`` for a part of it, ``ImportError`` without pyarrow, and ``OSError``.
    """
    pa = _pyarrow()
    objects = objects_of(file)
    try:
        if objects is None:
            table = _table(pa, file)
        else:
            names, contents = [name for name, _ in objects], contents_of(objects)
            tables = [_table(pa, name, content) for name, content in zip(names, contents)]
            # A part that an earlier release has closed lacks later columns.
            table = pa.concat_tables(tables, promote_options="default") if tables else None
        sequences = Sequences(table)
    except (pa.ArrowInvalid, KeyError) as error:
        raise StoreFault(f"{file}: expected sequences in Arrow's format of streams, got something else: {error}") from None
    found = sequences._all("sequence").count(0)
    if rollouts is not None and found != rollouts:
        raise StoreFault(f"{file}: expected {rollouts} rollouts (counts of its metrics.json), got {found}")
    return sequences


class SequencesFile:
    """The sequences of a file, read when they are asked for, and once. Pickled ones are read anew."""

    def __init__(self, file: str, rollouts: Optional[int]) -> None:
        self._file = file
        self._rollouts = rollouts
        self._held: Optional[Sequences] = None

    def read(self) -> Sequences:
        """Raises like ``read_sequences``."""
        if self._held is None:
            self._held = read_sequences(self._file, self._rollouts)
        return self._held

    def __getstate__(self) -> Dict[str, Any]:
        return {**self.__dict__, "_held": None}


def _table(pa: Any, name: str, content: Optional[bytes] = None) -> Any:
    """A table of a file or of these bytes. What is not looked at of a file is not read."""
    if content is None:
        file = path_of(name)
        with file.open("rb") as stream:
            _check_whole(name, stream, file.stat().st_size)
        return pa.ipc.open_stream(pa.memory_map(str(file))).read_all()
    _check_whole(name, BytesIO(content), len(content))
    return pa.ipc.open_stream(pa.py_buffer(content)).read_all()


def _pyarrow() -> Any:
    try:
        importlib.import_module("pyarrow.ipc")
        return importlib.import_module("pyarrow")
    except ImportError:
        raise ImportError('rollouts.arrow is read by pyarrow: pip install "durable-rollouts[arrow]"') from None


def _lists_of(chunks: List[Any], kind: Any) -> List[NDArray[Any]]:
    lists: List[NDArray[Any]] = []
    for chunk in chunks:
        values, ends = chunk.values.to_numpy(zero_copy_only=True), chunk.offsets.to_numpy()
        if values.dtype != kind:
            raise KeyError(f"a list of {np.dtype(kind)}, got {values.dtype}")
        lists.extend(values[start:end] for start, end in zip(ends[:-1], ends[1:]))
    return lists


def _pieces_of(table: Any) -> Dict[str, Tuple[int, List[Any]]]:
    """Each rollout's number in the file, and its rows as views of record batches. What takes rows from a table by
    their numbers copies the whole columns, and what slices one looks at all of their chunks.
    """
    pieces: Dict[str, Tuple[int, List[Any]]] = {}
    for batch in [] if table is None else table.to_batches():
        start = 0
        for name, rows in groupby(batch.column("rollout_id").to_pylist()):
            count = len(list(rows))
            pieces.setdefault(name, (len(pieces), []))[1].append(batch.slice(start, count))
            start += count
    return pieces


def _first_sampled(sequence: Dict[str, Any], count: int) -> int:
    """Where the first id stands that a further sequence has not from a parent; without any, behind its ``count`` ids."""
    return next((int(one["token_ids"][0]) for one in sequence["message_log"] if _is_sampled(one)), count)


def _is_sampled(message: Dict[str, Any]) -> bool:
    return "generation_logprobs" in message or message.get("sampled") is True


def _check_whole(name: str, stream: BinaryIO, size: int) -> None:
    """Libraries read a stream that was cut behind a batch without an error: only the end marker says that it is whole."""
    for at, length in _messages(stream):
        if length == 0 and at == size:
            return
        if length == 0 or at > size:
            break
    raise StoreFault(f"{name}: expected a whole Arrow stream with its end marker, got {size} bytes without: it was cut, or copied in part")


def _messages(stream: BinaryIO) -> Iterator[Tuple[int, int]]:
    """Where each message ends, and the length of its description: 0 is the end marker."""
    while True:
        prefix = stream.read(8)
        if len(prefix) < 8 or prefix[:4] != END[:4]:
            return
        (length,) = struct.unpack("<i", prefix[4:])
        described = stream.read(max(length, 0))
        if len(described) < length or length < 0:
            return
        if length > 0:
            stream.seek(_body_length(described), 1)
        yield stream.tell(), length


def _body_length(message: bytes) -> int:
    """Field 3 of the flatbuffer ``Message``."""
    try:
        (table,) = struct.unpack_from("<i", message, 0)
        (back,) = struct.unpack_from("<i", message, table)
        fields = table - back
        (size,) = struct.unpack_from("<H", message, fields)
        (offset,) = struct.unpack_from("<H", message, fields + 10) if size > 10 else (0,)
        (length,) = struct.unpack_from("<q", message, table + offset) if offset else (0,)
    except struct.error:
        return 2**62
    return max(int(length), 0)
