"""Makes the folders and files beside it: `python make.py`, with datasets and pyarrow as README.md names them."""

import json
import os
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from datasets import ClassLabel, Dataset, DatasetDict, Features, Sequence, Value

HERE = Path(__file__).parent
DOCUMENTS = ["a cat", "a dog and a cat", "Größe 😀\u2028", "", "the cat sat on the mat " * 9, "a\nb\tc", "nothing else"]
OTHERS = ["a horse", "a cow"]


def rows(texts):
    return {
        "id": list(range(len(texts))),
        "title": [f"Title {i}" for i in range(len(texts))],
        "tags": [["x"] * (i % 3) for i in range(len(texts))],
        "meta": [{"a": i, "b": None if i % 2 else "y"} for i in range(len(texts))],
        "label": [i % 2 for i in range(len(texts))],
        "body": texts,
    }


FEATURES = Features(
    {
        "id": Value("int64"),
        "title": Value("string"),
        "tags": Sequence(Value("string")),
        "meta": {"a": Value("int32"), "b": Value("string")},
        "label": ClassLabel(names=["no", "yes"]),
        "body": Value("string"),
    }
)


def fresh(name):
    shutil.rmtree(HERE / name, ignore_errors=True)
    (HERE / name).mkdir()
    return HERE / name


def main():
    train, test = (Dataset.from_dict(rows(texts), features=FEATURES) for texts in (DOCUMENTS, OTHERS))
    train.save_to_disk(fresh("saved"), num_shards=2)
    DatasetDict({"train": train, "test": test}).save_to_disk(fresh("saved-dict"))
    hub = fresh("hub") / "data"
    hub.mkdir()
    for k, part in enumerate((train.select(range(4)), train.select(range(4, 7)))):
        part.to_parquet(hub / f"train-0000{k}-of-00002.parquet")
    test.to_parquet(hub / "test-00000-of-00001.parquet")
    files = fresh("files")
    (files / "plain.jsonl").write_text("".join(json.dumps(dict(zip(rows(DOCUMENTS), row))) + "\n" for row in zip(*rows(DOCUMENTS).values())))
    table = train.data.table
    for codec in ("none", "gzip", "zstd", "brotli", "lz4"):
        pq.write_table(table, files / f"{codec}.parquet", compression=codec, row_group_size=3)
    pq.write_table(table, files / "v2.parquet", data_page_version="2.0", use_dictionary=False)
    for name, kind in (("large", pa.large_string()), ("dictionary", pa.dictionary(pa.int32(), pa.string())), ("view", pa.string_view())):
        body = pa.array(DOCUMENTS, pa.string()).cast(kind) if name != "view" else pa.array(DOCUMENTS, kind)
        write_stream(files / f"{name}.arrow", pa.table({"id": table["id"], "body": body}), 3)
    with pa.OSFile(str(files / "file-format.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=3)
    # Each batch has another dictionary, and one has no rows.
    parts = [pa.array(part, pa.string()).dictionary_encode() for part in (DOCUMENTS[:2], DOCUMENTS[2:2], DOCUMENTS[2:])]
    schema = pa.schema([("body", parts[0].type)])
    with pa.OSFile(str(files / "replaced.arrow"), "wb") as sink, pa.ipc.new_stream(sink, schema) as writer:
        for part in parts:
            writer.write_batch(pa.record_batch([part], schema=schema))
    nulls = pa.table({"id": [0, 1, 2], "body": ["a", "b", None]})
    pq.write_table(nulls, files / "null.parquet")
    write_stream(files / "null.arrow", nulls, 2)
    write_stream(files / "lz4.arrow", table, 9, pa.ipc.IpcWriteOptions(compression="lz4"))


def write_stream(file, table, rows_each, options=None):
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=rows_each)


if __name__ == "__main__":
    os.environ["HF_HUB_OFFLINE"] = "1"
    main()
