"""`python make.py UPSTREAM/nemo_rl/environments/tools/retriever.py corpus.jsonl queries.json`: writes bm25_100000.json.

Runs upstream's class on documents and queries of `test/environments/retriever/large-corpus.ts`. torch, ray, datasets and
transformers are stand-ins: tensors are numpy's and scipy's in float32, and the tokenizer takes runs of [a-z0-9].
"""

import hashlib
import importlib.util
import json
import re
import sys
import types
from pathlib import Path

import numpy as np
from scipy.sparse import coo_array

NUM_RESULTS = 10


class Tokenizer:
    vocab_size = 60_000

    def __init__(self):
        self.ids = {}

    def encode(self, text, add_special_tokens):
        return [self.ids.setdefault(word, len(self.ids)) for word in re.findall("[a-z0-9]+", text.lower())]


class Dense(np.ndarray):
    def to_dense(self):
        return self

    def topk(self, k):
        best = np.argsort(-self, kind="stable")[:k]
        return types.SimpleNamespace(indices=best, values=self[best])


def tensor(values, device):
    return np.array(values, np.float32 if isinstance(values[0], float) else np.int64)


def sparse_coo_tensor(indices, values, shape):
    return coo_array((values.astype(np.float32), (indices[0], indices[1])), shape=shape).tocsr()


def mm(left, right):
    return (left @ right).toarray().view(Dense)


def stand_ins():
    torch = types.ModuleType("torch")
    torch.tensor, torch.sparse_coo_tensor = tensor, sparse_coo_tensor
    torch.sparse = types.SimpleNamespace(mm=mm)
    ray = types.ModuleType("ray")
    ray.remote = lambda one: one
    modules = {"torch": torch, "ray": ray}
    modules["transformers"] = types.SimpleNamespace(AutoTokenizer=types.SimpleNamespace(from_pretrained=lambda *_, **__: Tokenizer()))
    modules["datasets"] = types.SimpleNamespace(load_dataset=None)
    modules["tqdm"] = types.SimpleNamespace(tqdm=lambda items, _: items)
    for name in ("nemo_rl", "nemo_rl.data", "nemo_rl.distributed", "nemo_rl.environments"):
        modules[name] = types.ModuleType(name)
    modules["nemo_rl.data.interfaces"] = types.SimpleNamespace(LLMMessageLogType=list)
    modules["nemo_rl.distributed.batched_data_dict"] = types.SimpleNamespace(BatchedDataDict=dict)
    modules["nemo_rl.environments.interfaces"] = types.SimpleNamespace(EnvironmentInterface=object, EnvironmentReturn=tuple)
    sys.modules.update(modules)


def main(upstream, corpus, queries):
    stand_ins()
    spec = importlib.util.spec_from_file_location("retriever", upstream)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    content = Path(corpus).read_bytes()
    documents = [json.loads(line)["text"] for line in content.splitlines()]
    retriever = module.BM25Retriever(documents=documents, num_result=NUM_RESULTS)
    place = {}
    for i, document in enumerate(documents):
        place.setdefault(document, i)
    scores = []
    topk = Dense.topk
    Dense.topk = lambda self, k: scores.append(topk(self, k).values) or topk(self, k)
    found = []
    for query in json.loads(Path(queries).read_text()):
        ids = [place[document] for document in retriever(query)]
        found.append({"ids": ids, "scores": [float(str(score)) for score in scores[-1]]})
    golden = {"corpus_sha256": hashlib.sha256(content).hexdigest(), "num_results": NUM_RESULTS, "k1": 1.5, "b": 0.75, "found": found}
    text = json.dumps(golden).replace('{"ids"', '\n{"ids"')
    (Path(__file__).parent / "bm25_100000.json").write_text(text + "\n")


main(*sys.argv[1:])
