"""Runs Python snippets one after the other in one state, and says what came of each.

An outcome is {"status", "value", "evaluated", "stdout", ...}: `status` is "ok", "error" (the snippet raised: `value` is
the exception's text) or "raises" (nemo-rl only: where upstream's step raises: {"type", "message"}); `value` is null for
nothing to show; `evaluated` is true when the snippet ended with an expression that has a value.
"""

import ast
import builtins
import copy
import io
import os
import sys
import types
from collections.abc import Mapping, Sequence
from pprint import pformat


def split(tree):
    """The statements to run, and the last expression to evaluate, if it ends with one."""
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        return tree.body[:-1], tree.body[-1].value
    return tree.body, None


def run(tree, name, scopes):
    """True and its value for a snippet that ends with an expression, else False and None."""
    statements, expression = split(tree)
    exec(compile(ast.Module(statements, type_ignores=[]), name, "exec"), *scopes)
    if expression is None:
        return False, None
    return True, eval(compile(ast.Expression(expression), name, "eval"), *scopes)


def text_of_error(error):
    if isinstance(error, SyntaxError):
        # Its repr has the whole line; its own text only says what is wrong where.
        return f"{type(error).__name__}({str(error)!r})"
    try:
        return pformat(error)
    except BaseException as second:
        return f"{type(error).__name__}() (its text raised {type(second).__name__})"


class Standard:
    """One namespace, as in a script or a notebook."""

    def __init__(self):
        module = types.ModuleType("__main__")
        sys.modules["__main__"] = module
        self.scope = module.__dict__

    def outcome(self, code):
        try:
            ended_with_expression, value = run(ast.parse(code, "<code>"), "<code>", (self.scope,))
            text = None if value is None else pformat(value)
        except BaseException as error:
            return {"status": "error", "value": text_of_error(error), "evaluated": False}
        return {"status": "ok", "value": text, "evaluated": ended_with_expression and value is not None}


BLOCKED_MODULES = {
    *("builtins", "importlib", "multiprocessing", "os", "shutil"),
    *("signal", "socket", "subprocess", "sys", "threading"),
}


class NemoRl:
    """Upstream's rules, quirks included: functions see built-in names only, and so on."""

    def __init__(self):
        names = dict(vars(builtins))
        names["open"] = self.open_below
        names["__import__"] = self.import_harmless
        self.outer = {"__builtins__": names}
        self.context = {}

    def open_below(self, file, *args, **kwargs):
        home = os.path.realpath(os.getcwd())
        if os.path.commonpath([os.path.realpath(file), home]) != home:
            raise PermissionError("Access beyond the temporary working directory is blocked")
        return open(file, *args, **kwargs)

    def import_harmless(self, name, *args, **kwargs):
        if name in BLOCKED_MODULES:
            raise PermissionError("Importing system and network modules is blocked")
        return __import__(name, *args, **kwargs)

    def kept(self, value):
        """What upstream keeps of a variable between turns."""
        if isinstance(value, (io.IOBase, types.ModuleType)):
            return repr(value)
        if isinstance(value, Mapping):
            return type(value)({self.kept(key): self.kept(item) for key, item in value.items()})
        if isinstance(value, Sequence) and not isinstance(value, str):
            return type(value)(self.kept(item) for item in value)
        if hasattr(value, "__dict__"):
            twin = copy.copy(value)
            twin.__dict__ = {self.kept(key): self.kept(item) for key, item in vars(value).items()}
            return twin
        return value

    def outcome(self, code):
        try:
            tree = ast.parse(code)
            result, evaluated = None, False
            try:
                evaluated, result = run(tree, "<string>", (self.outer, self.context))
            except Exception as error:
                result = error
            text = None if result is None else pformat(result)
            self.context = self.kept(self.context)
        except BaseException as error:
            return {"status": "raises", "type": type(error).__name__, "message": str(error)}
        return {"status": "ok", "value": text, "evaluated": evaluated}


KINDS = {"standard": Standard, "nemo-rl": NemoRl}
