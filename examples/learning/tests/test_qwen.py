"""The policy that a vLLM serves: what trainer and engine have to agree on. Skipped where there is no torch."""

import importlib.util
import json
import tempfile
import unittest
from pathlib import Path

import numpy as np
from model import logprobs_of
from policy import END, VOCABULARY, WINDOW

from task import LETTERS, LENGTH, answer_to, shown

HAS_TORCH = importlib.util.find_spec("torch") is not None
if HAS_TORCH:
    import qwen
    from safetensors.numpy import load_file
    from transformers import AutoTokenizer

WORD = list(map(ord, shown(LETTERS[:LENGTH]) + answer_to(LETTERS[:LENGTH])))


@unittest.skipUnless(HAS_TORCH, "torch is not installed")
class Qwen(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.weights = qwen.untrained(3, LETTERS)

    def test_says_letters_and_the_end_and_little_else_before_it_has_learned(self):
        ids = np.array([[*WORD, id] for id in range(VOCABULARY)])
        last = (np.arange(VOCABULARY), np.full(VOCABULARY, len(WORD)))
        logprobs, _ = qwen.logprobs(self.weights, ids, last)
        self.assertAlmostEqual(np.exp(logprobs).sum(), 1, places=9)
        self.assertGreater(np.exp(logprobs[[END, *map(ord, LETTERS)]]).sum(), 0.5)

    def test_sees_nothing_of_what_stands_behind_a_place(self):
        columns = np.arange(1, len(WORD))
        padded = np.array([WORD + [END] * 5, WORD + WORD[:5]])
        for row in (0, 1):
            told, _ = qwen.logprobs(self.weights, padded, (np.full_like(columns, row), columns))
            np.testing.assert_allclose(told, logprobs_of(qwen, self.weights, WORD), atol=1e-5)

    def test_looks_back_at_what_is_right_before_a_place(self):
        told = logprobs_of(qwen, self.weights, WORD)
        for back, is_seen in ((WINDOW, True), (WINDOW + 4, False)):
            other = [*WORD]
            other[len(WORD) - 1 - back] = ord("J")
            moved = abs(logprobs_of(qwen, self.weights, other)[-1] - told[-1])
            self.assertEqual(moved > 0.02, is_seen, f"{back} places back: {moved}")

    def test_its_gradient_is_that_of_finite_differences(self):
        columns = np.arange(9, len(WORD))
        ids, places = np.array([WORD]), (np.zeros_like(columns), columns)
        random = np.random.default_rng(0)
        by_logprob = random.normal(size=len(columns))
        _, pull = qwen.logprobs(self.weights, ids, places)
        by_weight = pull(by_logprob)
        self.assertEqual(set(by_weight), set(self.weights))
        for name, slope in by_weight.items():
            # Along its own direction, where float32 tells the difference.
            length = float(np.sqrt((slope.astype(np.float64) ** 2).sum()))
            step = 0.01 / max(length, 1e-9) * slope
            sides = [
                float(qwen.logprobs({**self.weights, name: self.weights[name] + side * step}, ids, places)[0] @ by_logprob)
                for side in (1, -1)
            ]
            self.assertAlmostEqual((sides[0] - sides[1]) / 0.02, length, delta=0.02 * length + 1e-3, msg=name)

    def test_the_same_input_gives_the_same_bits(self):
        def once():
            ids = np.array([WORD] * 8)
            rows, columns = np.divmod(np.arange(8 * 8), 8)
            told, pull = qwen.logprobs(self.weights, ids, (rows, columns + 9))
            return [told, *pull(np.ones(64)).values()]

        for one, again in zip(once(), once()):
            np.testing.assert_array_equal(one, again)

    def test_a_version_is_served_from_a_folder_of_its_own_as_it_is_and_again(self):
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(2):
                served = qwen.served(Path(folder) / "7.npz", self.weights)
                self.assertEqual([file.name for file in served.iterdir()], ["model.safetensors"])
                stored = load_file(served / "model.safetensors")
                self.assertEqual(set(stored), set(self.weights))
                for name, array in stored.items():
                    np.testing.assert_array_equal(array, self.weights[name])

    def test_ids_are_ascii_codes_for_the_tokenizer_that_an_engine_loads(self):
        with tempfile.TemporaryDirectory() as folder:
            qwen.config().save_pretrained(folder)
            qwen.tokenizer().save_pretrained(folder)
            self.assertEqual(json.loads((Path(folder) / "config.json").read_text())["eos_token_id"], END)
            tokenizer = AutoTokenizer.from_pretrained(folder)
        text = "".join(map(chr, range(1, VOCABULARY))) + "\n3 ABC=  ab\n\n"
        self.assertEqual(tokenizer(text).input_ids, list(map(ord, text)))
        self.assertEqual(tokenizer.decode([*map(ord, text), END], skip_special_tokens=True), text)


if __name__ == "__main__":
    unittest.main()
