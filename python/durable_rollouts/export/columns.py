"""The columns of a row in Arrow, from the types of ``durable_rollouts.rows``: the same of every file, whatever is in it.

What has a type has that of Arrow: texts, numbers, lists, and objects with named fields. What may be anything (the sample's
own columns, ``extra_env_info``, an object with names of its own) is JSON as text, because each row may have another type.
"""

from __future__ import annotations

import json
import warnings
from typing import Any, Callable, Dict, FrozenSet, Iterable, Iterator, List, Literal, Mapping, NamedTuple, Tuple, Union, get_args, get_origin

from typing_extensions import get_type_hints, is_typeddict

from ..results import Row
from ..rows import RowColumns

REST = "rest"
"""The JSON of all other columns: the sample's own, and those of later releases."""
PARTS = "_parts"
"""Ends the name of a column beside a text that may also be parts: the JSON of these."""


class Kind(NamedTuple):
    """How values of a type are kept."""

    arrow: Callable[[Any], Any]
    """Its type, of the module ``pyarrow``."""
    cell: Callable[[Any], Any]
    """What is kept of a value. Raises ``ValueError`` for one of another type."""
    value: Callable[[Any], Any]
    """The value again."""
    types: FrozenSet[type] = frozenset()
    """Those of Python that Arrow takes as they are. It would make 1 of 1.5, and of True."""


class Column(NamedTuple):
    field: str
    """Of the row."""
    kind: Kind
    is_null: bool
    """None is a value of the field; in others it says that there is none."""


def record_of(row: Row) -> Dict[str, Any]:
    """A row's cells. Raises ``ValueError``, naming the rollout and the column."""
    try:
        record = _cells(COLUMNS, row)
        record[REST] = _as_json({name: value for name, value in row.items() if name not in FIELDS})
        return record
    except (ValueError, TypeError) as error:
        raise ValueError(f"{row['rollout_id']}: {error}") from None


def rows(records: Iterable[Mapping[str, Any]]) -> Iterator[Row]:
    """The rows that a Parquet file was made of: equal to those of ``rollouts.jsonl``, but that a column without a value is
    absent, and that U+FFFD stands for half of a surrogate pair in a text.

    records: what ``datasets`` gives for each row, or pyarrow's ``to_pylist``

    Returns an iterator. Raises ``ValueError`` for a record of another table.

        arrays = to_arrays(export.rows(load_dataset("parquet", data_files="step-17.parquet", split="train")))
    """
    for record in records:
        missing = COLUMNS.keys() - record.keys()
        if missing or REST not in record:
            raise ValueError(f"expected the columns of export.parquet, got a record without {', '.join(sorted(missing)) or REST}")
        yield {**_values(COLUMNS, record), **json.loads(record[REST])}


def _cells(columns: Mapping[str, Column], value: Mapping[str, Any]) -> Dict[str, Any]:
    cells: Dict[str, Any] = {}
    for name, (field, kind, _) in columns.items():
        given = value.get(field)
        if given is not None:
            try:
                cells[name] = kind.cell(given)
            except (ValueError, TypeError, RecursionError) as error:
                raise ValueError(f"{field}: {error}") from None
    return cells


def _values(columns: Mapping[str, Column], cells: Mapping[str, Any]) -> Dict[str, Any]:
    values: Dict[str, Any] = {}
    for name, (field, kind, is_null) in columns.items():
        cell = cells.get(name)
        if cell is not None or is_null:
            values[field] = None if cell is None else kind.value(cell)
    return values


def _as_is(value: Any) -> Any:
    return value


def _as_text(value: Any) -> str:
    """Half of a surrogate pair has no UTF-8."""
    if not isinstance(value, str):
        raise ValueError(f"expected a text, got {value!r:.80}")
    try:
        value.encode()
        return value
    except UnicodeEncodeError:
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _as_json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
        return text
    except UnicodeEncodeError:
        return json.dumps(value)


TEXT = Kind(lambda pa: pa.string(), _as_text, _as_is)
JSON = Kind(lambda pa: pa.string(), _as_json, json.loads)


def _plain(arrow: Callable[[Any], Any], *types: type) -> Kind:
    def cell(value: Any) -> Any:
        if type(value) not in types:
            raise ValueError(f"expected {' or '.join(one.__name__ for one in types)}, got {value!r:.80}")
        return value

    return Kind(arrow, cell, _as_is, frozenset(types))


PLAIN = {
    str: TEXT,
    bool: _plain(lambda pa: pa.bool_(), bool),
    int: _plain(lambda pa: pa.int64(), int),
    float: _plain(lambda pa: pa.float64(), float, int),
}
TEXT_ALONE = TEXT._replace(cell=lambda value: _as_text(value) if isinstance(value, str) else None)
PARTS_ALONE = JSON._replace(cell=lambda value: None if isinstance(value, str) else _as_json(value))


def _kind_of(hint: Any) -> Kind:
    origin: Any = get_origin(hint)
    args = get_args(hint)
    if hint in PLAIN:
        return PLAIN[hint]
    if origin is Literal:
        return PLAIN[type(args[0])]
    if origin is Union and len(args) == 2 and args[1] is type(None):
        return _kind_of(args[0])
    if origin is list:
        return _list_of(_kind_of(args[0]))
    return _object_of(hint) if is_typeddict(hint) else JSON


def _list_of(item: Kind) -> Kind:
    if item is JSON:
        return JSON

    def cell(value: Any) -> List[Any]:
        if not isinstance(value, (list, tuple)):
            raise ValueError(f"expected a list, got {value!r:.80}")
        is_plain = item.types >= set(map(type, value))
        return list(value) if is_plain else [one if one is None else item.cell(one) for one in value]

    def value(cells: Any) -> List[Any]:
        return [one if one is None else item.value(one) for one in cells]

    return Kind(lambda pa: pa.list_(item.arrow(pa)), cell, value)


def _object_of(cls: Any) -> Kind:
    columns = _columns_of(cls)
    fields = {column.field for column in columns.values()}

    def cell(value: Any) -> Dict[str, Any]:
        if not isinstance(value, Mapping):
            raise ValueError(f"expected an object, got {value!r:.80}")
        if not value.keys() <= fields:
            warnings.warn(f"{cls.__name__}: {', '.join(sorted(value.keys() - fields))} is of a later release, and left out", stacklevel=2)
        return _cells(columns, value)

    return Kind(lambda pa: pa.struct(_fields(columns, pa)), cell, lambda cells: _values(columns, cells))


def _columns_of(cls: Any) -> Dict[str, Column]:
    found: Dict[str, Column] = {}
    for name, hint in get_type_hints(cls).items():
        origin: Any = get_origin(hint)
        others = get_args(hint) if origin is Union else ()
        if str in others and type(None) not in others:
            found[name], found[name + PARTS] = Column(name, TEXT_ALONE, False), Column(name, PARTS_ALONE, False)
        else:
            found[name] = Column(name, _kind_of(hint), type(None) in others and name in cls.__required_keys__)
    return found


def _fields(columns: Mapping[str, Column], pa: Any) -> List[Tuple[str, Any]]:
    return [(name, column.kind.arrow(pa)) for name, column in columns.items()]


COLUMNS = _columns_of(RowColumns)
FIELDS = {column.field for column in COLUMNS.values()}


def schema_of(pa: Any) -> Any:
    return pa.schema([*_fields(COLUMNS, pa), (REST, pa.string())])
