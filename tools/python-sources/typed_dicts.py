"""The types of requests, rows and answers, from their JSON Schemas: a ``TypedDict`` for each object that has fields."""

import json
import re
import textwrap
from pathlib import Path

from names import INNER, MODULES, TEXTS, WIDER, Whole

WIDTH = 120
PLAIN = {"string": "str", "boolean": "bool", "integer": "int", "number": "float", "null": "None"}
TYPING = ["Any", "Dict", "Iterable", "List", "Literal", "Optional", "Union"]
EXTENSIONS = ["NotRequired", "TypedDict"]


class Writer:
    """Writes the modules one after the other; a later one may import what an earlier one has."""

    def __init__(self, schemas: Path) -> None:
        self.schemas = schemas
        self.module = ""
        self.classes = {}
        self.known = {}
        self.homes = {}
        self.used = set()

    def text(self, module: str) -> str:
        self.module, self.classes, self.used = module, {}, set()
        constants = []
        for whole in MODULES[module]:
            schema = self.schema(whole)
            self.add(schema, whole.name, whole.text or sentence(schema["description"]))
            defaults = defaults_of(schema)
            if defaults:
                constant = f"{re.sub('Request|Settings', '', whole.name).upper()}_DEFAULTS: Dict[str, Any] = {literal(defaults)}"
                constants.append(f'{constant}\n"""The defaults of ``{whole.name}``."""\n')
        body = "\n\n".join([*self.classes.values(), *constants])
        lines = [docstring(TEXTS[module], ""), ""]
        for place, names in (("typing", TYPING), ("typing_extensions", EXTENSIONS)):
            needed = [name for name in names if re.search(rf"(?<![.\w]){name}\b", code_of(body))]
            lines += [f"from {place} import {', '.join(needed)}", ""]
        others = sorted({(self.homes[name], name) for name in self.used if self.homes[name] != module})
        for home in sorted({home for home, _ in others}):
            lines += [f"from .{home} import {', '.join(name for at, name in others if at == home)}", ""]
        return "\n".join(lines) + "\n\n" + body

    def schema(self, whole: Whole) -> dict:
        file, _, field = whole.schema.partition("#")
        read = json.loads((self.schemas / f"{file}.json").read_text(encoding="utf8"))
        schema = read["properties"][field] if field else read
        without = whole.without.split()
        schema["properties"] = {name: one for name, one in schema["properties"].items() if name not in without}
        schema["required"] = [name for name in schema.get("required", []) if name not in without]
        return schema

    def add(self, schema: dict, name: str, text: str) -> str:
        """The class of an object with fields, written once. Returns its name."""
        key = json.dumps([schema["properties"], schema.get("required")], sort_keys=True)
        if key in self.known:
            self.used.add(self.known[key])
            return self.known[key]
        if name in self.homes:
            raise SystemExit(f"names.py: expected a name in INNER for another {name} in {self.module}")
        self.known[key], self.homes[name] = name, self.module
        required = set(schema.get("required", []))
        is_total = bool(required)
        fields, said = [], []
        for field, one in schema["properties"].items():
            hint = self.hint(one, f"{name}.{field}", one.get("description", ""))
            fields.append(f"    {field}: {hint if not is_total or field in required else f'NotRequired[{hint}]'}")
            said.append(described(field, one))
        head = f"class {name}(TypedDict{'' if is_total else ', total=False'}):"
        doc = docstring("\n".join([text, "", *said]), "    ")
        self.classes[name] = "\n".join([head, doc, "", *fields]) + "\n"
        return name

    def hint(self, schema: dict, place: str, text: str) -> str:
        members = schema.get("anyOf", schema.get("oneOf"))
        if members is not None:
            return self.union(members, place, text)
        if "const" in schema or "enum" in schema:
            return f"Literal[{', '.join(json_text(one) for one in schema.get('enum', [schema.get('const')]))}]"
        kind = schema.get("type")
        if isinstance(kind, list):
            return self.union([{"type": one} for one in kind], place, text)
        if kind == "array":
            items = schema.get("items")
            wider = WIDER.get(place.rpartition(".")[2])
            return wider[0] if wider is not None else f"List[{self.hint(items if isinstance(items, dict) else {}, f'{place}[]', text)}]"
        if "properties" in schema:
            return self.inner(schema, place, text)
        if kind == "object":
            values = schema.get("additionalProperties")
            return f"Dict[str, {self.hint(values if isinstance(values, dict) else {}, f'{place}[]', text)}]"
        return PLAIN.get(kind, "Any")

    def union(self, members: list, place: str, text: str) -> str:
        hints = list(dict.fromkeys(self.hint(one, place, text) for one in members))
        others = [hint for hint in hints if hint != "None"]
        joined = others[0] if len(others) == 1 else f"Union[{', '.join(hints)}]"
        return joined if len(others) == len(hints) or len(others) > 1 else f"Optional[{joined}]"

    def inner(self, schema: dict, place: str, text: str) -> str:
        kinds = [one for one in schema["properties"].values() if "const" in one and isinstance(one["const"], str)]
        kind = kinds[0] if kinds else None
        where = place.replace("[]", "")
        first = next(iter(schema["properties"]))
        keys = [f"{where}.{kind['const']}"] if kind else [f"{where}.{first}", where]
        name, _, about = next((INNER[key] for key in keys if key in INNER), "").partition(": ")
        own = camel(kind["const"] if kind else place.rpartition(".")[2])
        return self.add(schema, name or own, about or sentence(kind["description"] if kind else text))


def camel(field: str) -> str:
    """``reward_shaping`` is a ``RewardShaping``, and ``tool_calls[]`` a ``ToolCall``."""
    return "".join(word.capitalize() for word in re.sub(r"s?(\[\])+$", "", field).split("_"))


def sentence(text: str) -> str:
    said = in_python(text).rstrip(".")
    return f"{said[:1].upper()}{said[1:]}."


def in_python(text: str) -> str:
    return re.sub(r"`([^`]*)`", r"``\1``", re.sub(r"\bnull\b", "None", text))


def described(field: str, schema: dict) -> str:
    """A line of the docstring; more, if it is long."""
    text = in_python(schema.get("description", "")) + WIDER.get(field, ("", ""))[1]
    default = schema.get("default")
    if default is not None and not isinstance(default, dict):
        text += f" (default ``{json_text(default)}``)"
    return textwrap.fill(
        f"{field}: {text}",
        WIDTH - len("    "),
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def defaults_of(schema: dict) -> dict:
    """The default of each field that has one, including fields of objects."""
    found = {}
    for name, one in schema["properties"].items():
        inner = defaults_of(one) if "properties" in one else {}
        if "default" in one:
            found[name] = {**one["default"], **inner} if isinstance(one["default"], dict) else one["default"]
    return found


def literal(value: object, indent: str = "") -> str:
    """As Python has it: a dictionary with one name a line."""
    if not isinstance(value, dict) or not value:
        return json_text(value)
    inner = "".join(f"{indent}    {json_text(name)}: {literal(one, indent + '    ')},\n" for name, one in value.items())
    return f"{{\n{inner}{indent}}}"


def json_text(value: object) -> str:
    if value is None or isinstance(value, bool):
        return str(value)
    if isinstance(value, list):
        return f"[{', '.join(json_text(one) for one in value)}]"
    return "{}" if value == {} else json.dumps(value, ensure_ascii=False)


def docstring(text: str, indent: str) -> str:
    raw = "r" if "\\" in text else ""
    end = f"\n{indent}" if "\n" in text else ""
    return f'{indent}{raw}"""{textwrap.indent(text, indent).lstrip()}{end}"""'


def code_of(text: str) -> str:
    return re.sub(r'r?""".*?"""', "", text, flags=re.DOTALL)
