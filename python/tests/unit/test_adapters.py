"""What no module of integrations may do: render, tokenise, cut, or ask again for a rollout. And each adapter is small."""

import ast
import io
import tokenize
import unittest
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "durable_rollouts" / "integrations"
SHARED = ("folders.py", "own.py", "replays.py", "sampling.py", "singles.py", "trl/rows.py", "trl/course.py", "trl/ranks.py", "trl/tensors.py")
"""Weights in folders, whose they are, what is replayed, the distribution of rows, rollouts asked for one by one, what both of
TRL's trainers need, numbers of steps, what ranks do together, and tensors that they hold in parts: of no one adapter.
"""
ADAPTERS = {
    "TRL GRPOTrainer": ("trl/rollouts.py", "trl/publish.py", "trl/checkpoints.py", "trl/__init__.py"),
    "TRL GRPOTrainer's weights": ("trl/lora.py", "trl/files.py", "trl/sending.py"),
    "TRL AsyncGRPOTrainer": ("trl/worker.py", "trl/samples.py", "trl/transfer.py", "trl/asynchronous.py"),
    "prime-rl": ("prime_rl/__init__.py", "prime_rl/__main__.py", "prime_rl/samples.py", "prime_rl/settings.py"),
    "SkyRL": ("skyrl/__init__.py", "skyrl/experiment.py", "skyrl/generator.py", "skyrl/rows.py", "skyrl/weights.py"),
    "SkyRL's settings": ("skyrl/config.py", "skyrl/settings.py"),
    "verl": ("verl/__init__.py", "verl/agent_loop.py", "verl/numbers.py", "verl/trainer.py"),
}
MOST_LINES = 200

RENDERS = ("tokenizer", "tokenize", "apply_chat_template", "detokenize", "batch_decode", "convert_tokens_to_ids")
"""As a name, an attribute or a setting."""
CUTS = {
    "hashlib.sha256(compact(_without_none(plain(prompt, of=PROMPT, fault=InvalidBatchRequest)))).hexdigest()[:16]",
    "hashlib.sha256(compact([sample, sampling])).hexdigest()[:16]",
    "of_all_ranks(hashes, accelerator)[:accelerator.process_index * len(hashes)]",
    "row['message_log'][:1]",
}
"""All slices with an end: names of rollouts, those of earlier ranks, and the prompt's message. None is of ids."""
REPEATS = {"folders.py"}
"""``publish``, which brings the same weights until the engines have them."""


def modules():
    return {str(path.relative_to(FOLDER)): path.read_text() for path in sorted(FOLDER.rglob("*.py"))}


def lines_of(text):
    """Those with code: no blank ones, comments and docstrings."""
    docs = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, node.end_lineno + 1)
    }
    nothing = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    tokens = [one for one in tokenize.generate_tokens(io.StringIO(text).readline) if one.type not in nothing]
    return len({line for one in tokens for line in range(one.start[0], one.end[0] + 1)} - docs)


def names_in(tree):
    for node in ast.walk(tree):
        if isinstance(node, (ast.Name, ast.Attribute, ast.arg, ast.alias, ast.keyword)):
            yield getattr(node, "id", None) or getattr(node, "attr", None) or getattr(node, "arg", None) or getattr(node, "name", None) or ""


def cuts_in(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice) and node.slice.upper is not None:
            yield ast.unparse(node)


def repeats_in(tree):
    """Loops that go on behind an exception, and waits for another try."""
    for loop in ast.walk(tree):
        if isinstance(loop, (ast.For, ast.AsyncFor, ast.While)):
            yield from (f"line {one.lineno}" for one in ast.walk(loop) if isinstance(one, ast.Try) and one.handlers)
    yield from (name for name in names_in(tree) if any(word in name.lower() for word in ("retry", "retries", "backoff", "tenacity")))


class Adapters(unittest.TestCase):
    def test_each_has_at_most_two_hundred_lines_of_code(self):
        found = modules()
        known = {name for names in ADAPTERS.values() for name in names} | {*SHARED, "__init__.py"}
        self.assertEqual(set(found), known, "a module belongs to an adapter, or is shared")
        lines = {of: sum(lines_of(found[name]) for name in names) for of, names in ADAPTERS.items()}
        self.assertEqual({of: count for of, count in lines.items() if not 50 < count <= MOST_LINES}, {})

    def test_none_renders_or_tokenises(self):
        for name, text in modules().items():
            # prime-rl's own setting of that name, which has no meaning here, and SkyRL's own one, whose files are the model's.
            given = {"tokenizer"} if name in ("prime_rl/settings.py", "skyrl/experiment.py") else set()
            self.assertEqual({one for one in names_in(ast.parse(text)) if one in RENDERS} - given, set(), name)

    def test_none_cuts(self):
        self.assertEqual({cut for text in modules().values() for cut in cuts_in(ast.parse(text))}, CUTS)

    def test_none_asks_again_for_a_rollout(self):
        repeating = {name: list(repeats_in(ast.parse(text))) for name, text in modules().items()}
        self.assertEqual({name for name, found in repeating.items() if found}, REPEATS, repeating)

    def test_what_is_forbidden_is_found(self):
        bad = ast.parse(
            "while True:\n    try:\n        row = tokenizer(text).encode()\n    except Timeout:\n        continue\nids = ids[: args.max_length]\nretry(ask)"
        )
        self.assertIn("tokenizer", list(names_in(bad)))
        self.assertEqual(list(cuts_in(bad)), ["ids[:args.max_length]"])
        self.assertEqual(list(repeats_in(bad)), ["line 2", "retry"])
        self.assertEqual(lines_of('"""A page."""\n\nx = 1  # one\n# two\ny = [\n    2,\n]\n'), 4)
