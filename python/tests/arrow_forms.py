"""Compares rollouts.arrow with rollouts.jsonl beside it, for tests, which ask ``[WHAT, FOLDER]`` (asked.py)."""

import bisect
import pickle
import random
import warnings
from dataclasses import fields
from pathlib import Path

import numpy as np
import pyarrow as pa
from asked import answer
from durable_rollouts import NotFound, StoreFault, to_arrays, to_groups, trajectories
from durable_rollouts.arrow import read_sequences
from durable_rollouts.results import read_rows, result_groups

warnings.simplefilter("ignore")


def both(folder):
    rows = list(read_rows(str(folder / "rollouts.jsonl")))
    return rows, read_sequences(str(folder / "rollouts.arrow"), len(rows))


def in_float32(row):
    """A row with the digits of its logprobs that float32 has."""
    for log in [row, *row.get("sequences", [])]:
        for message in log["message_log"]:
            if "generation_logprobs" in message and message["generation_logprobs"]:
                message["generation_logprobs"] = np.array(message["generation_logprobs"], np.float32).tolist()
    return row


def equal(folder):
    """Rows, arrays of all of them and of each, and trajectories."""
    rows, sequences = both(folder)
    given = [in_float32(row) for row in rows]
    assert len(given) == len(sequences.rows())
    for found, row in zip(sequences.rows(), given):
        assert in_float32(found) == row, f"{found}\n{row}"
    # Of what to_arrays takes: neither failures nor rows without tokens.
    seen = {"rows": len(rows), "sequences": len(sequences), "arrays": 0, "refused": 0, "trees": 0, "agents": 0, "unlogged": 0}
    for at, row in enumerate(rows):
        (folder / "one.arrow").write_bytes(alone(folder / "rollouts.arrow", at))
        one = read_sequences(str(folder / "one.arrow"), 1)
        try:
            expected = arrays_of([row])
        except ValueError as error:
            said = str(error)
            try:
                arrays_of(one)
                raise AssertionError(f"expected {said}")
            except ValueError as refused:
                assert str(refused)[:40] == said[:40], (str(refused), said)
            seen["refused"] += 1
            continue
        same(arrays_of(one), expected)
        for mine, theirs in zip(trajectories(one), trajectories([row]), strict=True):
            assert mine.rollout_id == theirs.rollout_id and mine.completion_ids.tolist() == theirs.completion_ids.tolist()
            assert mine.prompt_ids.tolist() == theirs.prompt_ids.tolist() and mine.versions.tolist() == theirs.versions.tolist()
            assert mine.stop_reason == theirs.stop_reason and mine.reward == theirs.reward
        seen["arrays"] += 1
        seen["trees"] += len(expected.sequence) > 1
        seen["agents"] += "agent_result" in row
        seen["unlogged"] += bool(np.isnan(expected.logprobs).any())
    return seen


def arrays_of(rows):
    return to_arrays(rows, require_logprobs=False, advantages="grpo", norm="rollout")


def same(found, expected):
    for one in fields(expected):
        mine, theirs = getattr(found, one.name), getattr(expected, one.name)
        assert mine.dtype == theirs.dtype, one.name
        np.testing.assert_array_equal(mine, theirs, one.name)


TABLES, PLACES = {}, {}


def alone(file, row):
    """One rollout of the file, as a file."""
    table = TABLES.setdefault(str(file), pa.ipc.open_stream(file.read_bytes()).read_all())
    places = PLACES.setdefault(str(file), table["row"].to_pylist())
    first = bisect.bisect_left(places, row)
    chosen = table.slice(first, bisect.bisect_right(places, row) - first)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, chosen.schema) as writer:
        writer.write_table(chosen)
    return sink.getvalue().to_pybytes()


def whole(folder):
    """The arrays of all valid rows at once."""
    rows, sequences = both(folder)
    expected, found = arrays_of(rows), arrays_of(sequences)
    same(found, expected)
    return {"sequences": len(expected), "groups": len(set(expected.group_ids.tolist()))}


def cut(folder):
    """Every cut is a fault: behind each batch, at random bytes, and a file without a batch of its middle."""
    rows, _ = both(folder)
    data = (folder / "rollouts.arrow").read_bytes()
    ends, stream = [], pa.ipc.MessageReader.open_stream(data)
    at = 0
    for message in stream:
        at += len(message.serialize())
        ends.append(at)
    assert at + 8 == len(data), (at, len(data))
    cuts = [*ends, *(end + more for end in ends for more in (-8, 4, 7)), *random.Random(1).sample(range(len(data)), 300)]
    for length in cuts:
        refused(folder, data[:length], len(rows))
    for start, end in zip(ends, ends[1:]):
        refused(folder, data[:start] + data[end:], len(rows))
    refused(folder, data + b"more", len(rows))
    refused(folder, data[: ends[0]] + b"\xff\xff\xff\xff\x00\x00\x00\x00", len(rows))
    # Numbers of unlabelled tokens look like an end marker.
    refused(folder, data[: ends[0] + 8 * ((len(data) - ends[0]) // 16)] + b"\xff\xff\xff\xff\x00\x00\x00\x00", len(rows))
    return {"cuts": len(cuts), "batches": len(ends) - 1}


def refused(folder, data, count):
    (folder / "cut.arrow").write_bytes(data)
    try:
        found = read_sequences(str(folder / "cut.arrow"), count)
    except StoreFault as fault:
        assert "cut.arrow" in str(fault)
        return
    raise AssertionError(f"{len(found)} sequences of {len(data)} bytes")


def groups(folder):
    """Each group's own sequences, also of one that another process has got."""
    rows, sequences = both(folder)
    files = {"rollouts": str(folder / "rollouts.jsonl"), "failures": str(folder / "failures.jsonl"), "sequences": str(folder / "rollouts.arrow")}
    (folder / "failures.jsonl").write_text("")
    found = result_groups({"files": files, "counts": {"completed": len(rows)}})
    whole = sequences.rows()
    for group in [*found, *pickle.loads(pickle.dumps(found))]:
        mine = group.sequences().rows()
        assert mine == [row for row in whole if row["row"] == group.row] and len(mine) == len(group.rows), group
        # Both are views of one file.
        ids, again = (group.sequences()._lists["input_ids"][0] for _ in range(2))
        assert len(ids) == 0 or np.shares_memory(ids, again), group
    try:
        to_groups(rows)[0].sequences()
        raise AssertionError("expected NotFound")
    except NotFound as missing:
        assert "formats: [jsonl, arrow]" in str(missing)
    return {"groups": len(found)}


def later(folder):
    """A file of a later release, with one more column."""
    rows, sequences = both(folder)
    table = pa.ipc.open_stream((folder / "rollouts.arrow").read_bytes()).read_all()
    more = table.append_column(pa.field("later", pa.list_(pa.float32())), pa.nulls(table.num_rows, pa.list_(pa.float32())))
    with pa.ipc.new_stream(str(folder / "later.arrow"), more.schema) as writer:
        writer.write_table(more)
    found = read_sequences(str(folder / "later.arrow"), len(rows))
    same(arrays_of(found), arrays_of(sequences))
    assert found.rows() == sequences.rows()
    return {"columns": more.num_columns}


ASKED = {"equal": equal, "whole": whole, "cut": cut, "groups": groups, "later": later}

if __name__ == "__main__":
    answer(lambda what, folder: ASKED[what](Path(folder)))
