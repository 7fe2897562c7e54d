"""Chat templates, compiled with the settings of transformers' apply_chat_template. Needs jinja2."""
import datetime
import json
import re

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment


def refuse(message):
    raise jinja2.TemplateError(message)


def compiled(source):
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols])
    environment.filters["tojson"] = lambda x, **more: json.dumps(x, ensure_ascii=False, indent=more.get("indent"))
    environment.globals["raise_exception"] = refuse
    # The date of every rendering is the same.
    environment.globals["strftime_now"] = lambda form: datetime.datetime(2026, 1, 1).strftime(form)
    return environment.from_string(re.sub(r"\{%-?\s*(end)?generation\s*-?%\}", "", source))


def compiled_in(folder):
    """By the file's name."""
    return {path.stem: compiled(path.read_text()) for path in folder.glob("*.jinja")}
