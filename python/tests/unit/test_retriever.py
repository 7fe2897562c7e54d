"""rollout_environment.retriever: upstream's recorded answers, each format, and what it keeps."""

import json
import os
import tempfile
import threading
import unittest
from pathlib import Path

from rollout_environment.retriever import Document, Retriever
from rollout_environment.retriever.builder import build
from rollout_environment.retriever.tokenizers import tokenizer_of, wordpiece

GOLDENS = Path(__file__).parents[3] / "test" / "goldens"
DATASETS = GOLDENS / "retriever-datasets"
DOCUMENTS = ["a cat", "a dog and a cat", "Größe 😀\u2028", "", "the cat sat on the mat " * 9, "a\nb\tc", "nothing else"]
PIECES = "[PAD] [CLS] [MASK] [UNK] [SEP] un ##aff ##able play ##ing new e ##e 中 文 $ . ! ##! a ##b 2 ##0 σ ##σ".split()


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def open(self, corpus, **settings):
        return Retriever(corpus, cache=self.folder / "kept", **settings)

    def corpus(self, documents):
        file = self.folder / "corpus.jsonl"
        file.write_text("".join(json.dumps({"id": i, "text": text}) + "\n" for i, text in enumerate(documents)), "utf-8")
        return file


class Answers(Folder):
    def test_rank_as_upstream_does_and_ties_come_by_place(self):
        goldens = sorted((GOLDENS / "retriever").glob("k1_*.json"))
        self.assertGreater(len(goldens), 2)
        for file in goldens:
            golden = json.loads(file.read_text("utf-8"))
            settings = {name: golden[name] for name in ("k1", "b", "num_results")}
            retriever = self.open(self.corpus(golden["documents"]), **settings)
            for case in golden["cases"]:
                found = retriever.search(case["query"])
                if "scores" not in case:
                    continue
                self.assertEqual([one.text for one in found], [golden["documents"][one.id] for one in found])
                self.assertEqual(found, sorted(found, key=lambda one: (-one.score, one.id)))
                self.assertEqual(len(found), len(case["scores"]))
                for one, expected in zip(found, case["scores"]):
                    self.assertLessEqual(abs(one.score - expected), 1e-5 * max(one.score, expected))
                    self.assertLessEqual(abs(one.score - case["all_scores"][one.id]), 1e-5 * max(one.score, expected))

    def test_words_that_are_nowhere_find_the_first_documents(self):
        retriever = self.open(self.corpus(["a b", "c", "d"]), num_results=2)
        self.assertEqual(retriever.search("zebra"), [Document(0, "a b", 0), Document(1, "c", 0)])
        self.assertEqual([one.id for one in retriever.search("C")], [1, 0])
        self.assertEqual([one.id for one in retriever.search("d", num_results=9)], [2, 0, 1])
        self.assertEqual(retriever.search("d", num_results=0), [])
        self.assertEqual(retriever.document_count, 3)

    def test_are_those_of_a_sort_of_everything(self):
        documents = [" ".join(f"w{(i * i + 3 * j) * 7919 % 13}" for j in range(1 + i % 9)) for i in range(200)]
        retriever = self.open(self.corpus(documents))
        for query in ("w1", "w2 w3 w2", "w4 w5 w6 w7 w8", "w1"):
            everything = retriever.search(query, num_results=200)
            self.assertEqual(everything, sorted(everything, key=lambda one: (-one.score, one.id)))
            for count in (1, 2, 7, 50):
                self.assertEqual(retriever.search(query, num_results=count), everything[:count])

    def test_from_several_threads_are_the_same(self):
        retriever = self.open(self.corpus([f"w{i % 7} w{i % 11}" for i in range(500)]))
        expected = retriever.search("w3 w5")
        got = []
        threads = [threading.Thread(target=lambda: got.extend(retriever.search("w3 w5") for _ in range(20))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(got, [expected] * 80)


class Corpora(Folder):
    def test_of_each_format_have_the_same_documents(self):
        files = ["plain.jsonl", *(f"{name}.parquet" for name in ("none", "gzip", "zstd", "v2"))]
        files += [f"{name}.arrow" for name in ("large", "dictionary", "view", "replaced", "file-format")]
        same = [(f"files/{file}", None) for file in files]
        same += [("saved", None), ("saved-dict", "train"), ("saved-dict/train", None), ("hub", "train"), ("hub/data", "train")]
        for corpus, split in same:
            with self.subTest(corpus):
                retriever = self.open(DATASETS / corpus, split=split, text_column="body")
                self.assertEqual([one.text for one in retriever.search("", num_results=100)], DOCUMENTS)
                self.assertEqual(retriever.search("dog")[0].id, 1)

    def test_are_refused_by_file_and_row(self):
        bad = self.corpus([])
        for text, problem in (
            ('{"text": "a"}\n\n{"text": 5, "id": "x9"}\n', r'corpus\.jsonl line 3: text \(id "x9"\): expected a string, got 5$'),
            ('{"text": "a"}\n{"txt": "b", "n": 1}', r"corpus\.jsonl line 2: text: expected a string, got a row with txt, n$"),
            ('{"text": "a"}\n["b"]\n', r'corpus\.jsonl line 2: expected an object, got \["b"\]$'),
            ('{"text": "a"\n', r"corpus\.jsonl line 1: expected JSON"),
            ("\n \n", r"corpus\.jsonl: expected documents, got none$"),
        ):
            bad.write_text(text)
            with self.assertRaisesRegex(ValueError, problem):
                self.open(bad)
        bad.write_bytes(b'{"text": "a"}\n{"text": "\xff"}\n')
        with self.assertRaisesRegex(ValueError, r"corpus\.jsonl line 2: expected JSON in UTF-8: "):
            self.open(bad)
        for corpus, settings, problem in (
            ("hub", {}, "hub: split: required, because hub has test, train$"),
            ("saved", {"split": "test"}, "split: expected train, got 'test'$"),
            ("files/none.parquet", {"split": "train"}, "expected none for one file"),
            ("files/null.parquet", {}, r"null\.parquet row 3: body: expected a string, got null$"),
            ("files/null.arrow", {}, r"null\.arrow row 3: body: expected a string, got null$"),
            ("saved", {"text_column": "text"}, r"\.arrow: text: expected a string, got a row with id, title"),
            ("files/none.parquet", {"text_column": "text"}, r"none\.parquet: text: expected a string, got a row with id, title"),
        ):
            with self.subTest(corpus, **settings), self.assertRaisesRegex(ValueError, problem):
                self.open(DATASETS / corpus, **{"text_column": "body", **settings})
        with self.assertRaisesRegex(FileNotFoundError, "nothing: there is no such file or folder"):
            self.open(self.folder / "nothing")

    def test_read_a_byte_order_mark_and_halves_of_characters(self):
        file = self.corpus([])
        file.write_bytes(b'\xef\xbb\xbf{"text": "a\\ud800"}\r\n{"text": "b"}\r\n')
        self.assertEqual([one.text for one in self.open(file).search("")], ["a\ufffd", "b"])


class Kept(Folder):
    def test_an_index_is_built_once_for_each_content(self):
        corpus = self.corpus(["a cat", "a dog"])
        self.open(corpus)
        (kept,) = (self.folder / "kept").iterdir()
        stamp = (kept / "postings.u32").stat().st_mtime_ns
        copy = self.folder / "copy.jsonl"
        copy.write_bytes(corpus.read_bytes())
        self.assertEqual(self.open(copy, k1=0.9).search("dog")[0].id, 1)
        self.assertEqual((kept / "postings.u32").stat().st_mtime_ns, stamp)
        self.assertEqual(self.open(self.corpus(["a cow", "a dog"])).search("cow")[0].id, 0)
        self.assertEqual(len(list((self.folder / "kept").iterdir())), 2)

    def test_one_that_is_not_whole_is_built_again(self):
        corpus = self.corpus(["a cat", "a dog"])
        self.open(corpus)
        (kept,) = (self.folder / "kept").iterdir()
        files = list(kept.iterdir())
        self.assertEqual(len(files), 7)
        for file in files:
            os.truncate(kept / file.name, 1)
            self.assertEqual(self.open(corpus).search("dog")[0].id, 1, file.name)
        self.assertEqual([one.name for one in (self.folder / "kept").iterdir()], [kept.name])

    def test_is_the_same_whatever_fits_in_memory(self):
        documents = [" ".join(f"w{(i * j) % 17}" for j in range(i % 8)) for i in range(40)]
        tokenize = tokenizer_of("alphanumeric", None)

        def built(name, **bound):
            folder = self.folder / name
            folder.mkdir()
            build(folder, documents, tokenize, **bound)
            return {file.name: file.read_bytes() for file in folder.iterdir()}

        whole = built("whole")
        for most in (1, 2, 7, 30):
            self.assertEqual(built(f"of-{most}", most_postings=most), whole)


class WordPieces(unittest.TestCase):
    def test_are_those_of_berts_tokenizer(self):
        tokenize = wordpiece(set(PIECES))
        for text, pieces in (
            ("unaffable", ["un", "##aff", "##able"]),
            ("Playing New!!", ["play", "##ing", "new", "!", "!"]),
            ("é $2.0", ["e", "$", "2", ".", "[UNK]"]),
            ("e\u0301", ["e"]),
            ("中文new", ["中", "文", "new"]),
            ("unplayable", ["[UNK]"]),
            ("[SEP]new[sep]", ["[SEP]", "new", "[UNK]", "[UNK]", "[UNK]"]),
            ("a\0b\u200b", ["a", "##b"]),
            ("a" * 101, ["[UNK]"]),
            ("new\u2028new\xa0new", ["new", "new", "new"]),
            ("ΣΣ", ["σ", "##σ"]),
            ("", []),
        ):
            self.assertEqual(tokenize(text), pieces, text)


if __name__ == "__main__":
    unittest.main()
