"""Whether the code of an environment is the one that it was before."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import pickle
import types
from pathlib import Path
from typing import Any, Dict, Iterator, List, Tuple

_DATA = (str, bytes, int, float, bool, type(None), tuple, list, dict, set, frozenset)


def digest_of(found: Any) -> str:
    """A digest of a function, a class, an object or ``module:name``: its instructions and constants, its defaults and what
    it closes over, and the same of the functions, classes and plain data of its own module that it names. Where it stands
    in its file and what it is called do not count, and neither does the code of packages.
    """
    sha = hashlib.sha256()
    for part in _parts(found, {}):
        sha.update(f"{len(part)}:{part}".encode("utf-8", "backslashreplace"))
    return sha.hexdigest()[:16]


def _parts(found: Any, seen: Dict[int, Any]) -> Iterator[str]:
    # Kept, so that its id stays its own.
    if id(found) in seen:
        return
    seen[id(found)] = found
    if isinstance(found, str) and len(seen) == 1:
        yield from ("module", found, _source_of(found))
    elif isinstance(found, _DATA):
        yield from ("data", _all_data(found))
    elif isinstance(found, types.MethodType):
        yield from _parts(found.__func__, seen)
        yield from _parts(found.__self__, seen)
    elif isinstance(found, functools.partial):
        for part in (found.func, found.args, found.keywords):
            yield from _parts(part, seen)
    elif isinstance(found, types.FunctionType):
        yield from _function(found, seen)
    elif isinstance(found, type):
        yield from _class(found, seen)
    elif isinstance(found, types.ModuleType) or not hasattr(found, "__dict__"):
        yield from ("other", type(found).__qualname__)
    else:
        yield from _object(found, seen)


def _function(found: types.FunctionType, seen: Dict[int, Any]) -> Iterator[str]:
    yield "function"
    yield from _code(found.__code__)
    for part in (found.__defaults__, found.__kwdefaults__, *_closed_over(found)):
        yield from _parts(part, seen)
    own = found.__module__
    for name in sorted(_names(found.__code__)):
        value = found.__globals__.get(name)
        if isinstance(value, _DATA) or (own is not None and getattr(value, "__module__", None) == own):
            yield name
            yield from _parts(value, seen)


def _class(found: type, seen: Dict[int, Any]) -> Iterator[str]:
    yield "class"
    for base in found.__mro__:
        if base.__module__ != found.__module__:
            continue
        for name, member in sorted(vars(base).items()):
            if name not in ("__module__", "__dict__", "__weakref__", "__doc__", "__firstlineno__", "__static_attributes__"):
                inner = getattr(member, "__func__", getattr(member, "fget", member))
                yield name
                yield from _parts(inner, seen)


def _object(found: Any, seen: Dict[int, Any]) -> Iterator[str]:
    yield from _parts(type(found), seen)
    for name, value in sorted(vars(found).items(), key=lambda item: str(item[0])):
        yield str(name)
        yield from _parts(value, seen)


def _code(code: types.CodeType) -> Iterator[str]:
    yield from (code.co_code.hex(), repr(code.co_names), repr(code.co_varnames), str(code.co_flags))
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _code(constant)
        else:
            yield _data(constant)


def _names(code: types.CodeType) -> List[str]:
    """The names of globals and attributes, also in functions within it."""
    inner = [name for constant in code.co_consts if isinstance(constant, types.CodeType) for name in _names(constant)]
    return list(dict.fromkeys([*code.co_names, *inner]))


def _closed_over(found: types.FunctionType) -> Tuple[Any, ...]:
    values = []
    for cell in found.__closure__ or ():
        try:
            values.append(cell.cell_contents)
        except ValueError:  # Not filled yet.
            continue
    return tuple(values)


def _all_data(value: Any) -> str:
    try:
        return _data(value)
    except RecursionError:  # It contains itself, which is not compared.
        return type(value).__qualname__


def _data(value: Any) -> str:
    """A set has another order in each process."""
    if isinstance(value, (set, frozenset)):
        return "{" + ",".join(sorted(map(_data, value))) + "}"
    if isinstance(value, (tuple, list)):
        return "[" + ",".join(map(_data, value)) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{_data(key)}:{_data(one)}" for key, one in value.items()) + "}"
    if isinstance(value, _DATA) or value is ...:
        return repr(value)
    try:
        return hashlib.sha256(pickle.dumps(value)).hexdigest()
    except Exception:  # A value that cannot be pickled is not compared.
        return type(value).__qualname__


def _source_of(name: str) -> str:
    spec = importlib.util.find_spec(name.partition(":")[0])
    if spec is None or spec.origin is None:
        return ""
    try:
        return Path(spec.origin).read_text(errors="backslashreplace")
    except OSError:
        return ""
