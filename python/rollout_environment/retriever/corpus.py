"""The texts of a corpus, in the order and with the rules of the worker's retriever."""

import json
import os
import re
from pathlib import Path

FORMATS = {".jsonl": "jsonl", ".arrow": "arrow", ".parquet": "parquet"}
# `train-00000-of-00041`, also behind the name of a dataset.
SHARD = re.compile(r"(?:^|[-/])(\w[\w.]*)-\d{5}-of-\d{5}[^/]*$", re.ASCII)
# A cache of the Hub may have some shards alone: the count names all.
COUNT = re.compile(r"-\d{5}-of-(\d{5})", re.ASCII)
# Names that say nothing.
NO_SPLIT = ("data", "part")
KEYWORDS = {
    split: re.compile(f"(?<![a-z])(?:{words})(?![a-z])", re.IGNORECASE)
    for split, words in {
        "train": "train|training",
        "validation": "validation|valid|dev|val",
        "test": "test|testing|eval|evaluation",
    }.items()
}
POINTER = b"version https://git-lfs"
SURROGATE = re.compile("[\ud800-\udfff]")


class _Problem(Exception):
    """A problem of a line or row, which `at` names."""

    def __init__(self, at, what):
        super().__init__(what)
        self.at = at


def files_of(corpus, split):
    """Their format and paths. A folder is what `save_to_disk` of `datasets` writes, or a repository of the Hub."""
    corpus = Path(corpus)
    if not corpus.is_dir():
        if not corpus.exists():
            raise FileNotFoundError(f"{corpus}: there is no such file or folder")
        if split is not None:
            raise ValueError(f"split: expected none for one file, got {split!r}")
        return FORMATS.get(corpus.suffix, "jsonl"), [corpus]
    splits = corpus / "dataset_dict.json"
    if splits.exists():
        names = json.loads(splits.read_text("utf-8"))["splits"]
        return _saved(corpus / _chosen(corpus, split, names), None)
    if (corpus / "state.json").exists():
        return _saved(corpus, split)
    return _by_split(corpus, split)


def _saved(folder, split):
    state = json.loads((folder / "state.json").read_text("utf-8"))
    _chosen(folder, split, [state.get("_split") or "train"])
    return "arrow", [folder / file["filename"] for file in state["_data_files"]]


def _chosen(corpus, split, names):
    if split is None and len(names) == 1:
        return names[0]
    if split is None:
        raise ValueError(f"{corpus}: split: required, because {corpus.name} has {', '.join(names)}")
    if split not in names:
        raise ValueError(f"{corpus}: split: expected {' or '.join(names)}, got {split!r}")
    return split


def _by_split(corpus, split):
    paths = [Path(folder, name) for folder, _, names in os.walk(corpus) for name in names]
    files = sorted(str(path.relative_to(corpus)) for path in paths if path.suffix in FORMATS)
    files = [file for file in files if not any(part.startswith((".", "__")) for part in Path(file).parts)]
    if not files:
        raise ValueError(f"{corpus}: expected files that end in {', '.join(FORMATS)}, got none")
    name = _chosen(corpus, split, sorted({_split_of(file) for file in files}))
    own = [Path(file) for file in files if _split_of(file) == name]
    folders = list(dict.fromkeys(str(file.parent) for file in own))
    if len(folders) > 1:
        raise ValueError(f"{corpus}: expected the files of {name} in one folder, got {', '.join(folders)}; name one of them")
    suffixes = list(dict.fromkeys(file.suffix for file in own))
    if len(suffixes) > 1:
        raise ValueError(f"{corpus}: expected files of one format, got {', '.join(suffixes)}")
    counts = {int(count[1]) if (count := COUNT.search(file.name)) else 0 for file in own}
    if len(counts) == 1 and len(own) < max(counts):
        raise ValueError(f"{corpus}: expected all {max(counts)} files of {name}, as their names say, got {len(own)}")
    return FORMATS[suffixes[0]], [corpus / file for file in own]


def _split_of(file):
    shard = SHARD.search(file.replace(os.sep, "/"))
    if shard and shard[1] not in NO_SPLIT:
        return shard[1]
    return next((split for split, words in KEYWORDS.items() if words.search(file)), "train")


def texts_of(kind, files, column):
    """Raises at the first document without a text, naming file, line or row, and column."""
    read = {"jsonl": _jsonl, "arrow": _arrow, "parquet": _parquet}[kind]
    for file in files:
        with open(file, "rb") as head:
            if head.read(len(POINTER)) == POINTER:
                raise ValueError(f"{file}: expected documents, got a pointer of Git LFS; run `git lfs pull` there")
        try:
            yield from read(file, column)
        except _Problem as problem:
            at = f" {problem.at}" if problem.at else ""
            raise ValueError(f"{file}{at}: {problem}") from problem


def _jsonl(file, column):
    with open(file, "rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                row = json.loads(text) if text.strip() else None
            except ValueError as error:
                raise _Problem(f"line {number}", f"expected JSON in UTF-8: {error}") from error
            if not text.strip():
                continue
            if not isinstance(row, dict):
                raise _Problem(f"line {number}", f"expected an object, got {json.dumps(row)}")
            where = f"{column} (id {json.dumps(row['id'])})" if "id" in row else column
            if column not in row:
                raise _Problem(f"line {number}", _expected(where, row))
            yield _text(row[column], f"line {number}", where)


def _arrow(file, column):
    pyarrow = _pyarrow()
    with pyarrow.memory_map(str(file)) as source:
        is_file = source.read(6) == b"ARROW1"
        source.seek(0)
        try:
            reader = pyarrow.ipc.open_file(source) if is_file else pyarrow.ipc.open_stream(source)
        except pyarrow.ArrowInvalid as error:
            raise _Problem("", f"expected an Arrow file, as `datasets` saves it: {error}") from error
        _check(column, reader.schema)
        batches = (reader.get_batch(i) for i in range(reader.num_record_batches)) if is_file else reader
        yield from _column(batches, column)


def _parquet(file, column):
    _pyarrow()
    from pyarrow.parquet import ParquetFile

    with ParquetFile(file) as table:
        _check(column, table.schema_arrow)
        yield from _column(table.iter_batches(batch_size=1000, columns=[column]), column)


def _column(batches, column):
    row = 0
    for batch in batches:
        for value in batch.column(column).to_pylist():
            row += 1
            yield _text(value, f"row {row}", column)


def _check(column, schema):
    if column not in schema.names:
        raise _Problem("", _expected(column, schema.names))


def _expected(column, names):
    return f"{column}: expected a string, got a row with {', '.join(names) or 'nothing'}"


def _text(value, at, column):
    if isinstance(value, str):
        # JSON may have halves of characters, which no UTF-8 has.
        return SURROGATE.sub("\ufffd", value)
    raise _Problem(at, f"{column}: expected a string, got {json.dumps(value, default=str)}")


def _pyarrow():
    try:
        import pyarrow
        import pyarrow.ipc  # noqa: F401
    except ImportError as error:
        raise ImportError("Arrow and Parquet need the package pyarrow: pip install pyarrow") from error
    return pyarrow
