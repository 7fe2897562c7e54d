"""Files of the Hugging Face Hub by name, as its cache on this machine has them. Nothing is downloaded."""

import os
import re
import shlex
from pathlib import Path

FORM = "hf://datasets/ORGANISATION/NAME[@REVISION][/FILE], without datasets/ for files of a model"
NAME = re.compile(r"hf://(datasets/)?(?!datasets/|spaces/)([\w.-]+/[\w.-]+)(?:@([^/]+))?(?:/(.*))?", re.ASCII | re.DOTALL)


def path_of(text):
    """A path stays as it is; a name of the Hub becomes the path in its cache, or an error that says how to get it."""
    if not str(text).startswith("hf://"):
        return text
    kind, repository, revision, file = _parsed(text)
    cache = _cache()
    own = cache / f"{kind}s--{repository.replace('/', '--')}"
    # A branch or tag is a file with a commit's name; any other revision is that name itself.
    ref = own / "refs" / revision
    found = own / "snapshots" / (ref.read_text("utf-8").strip() if ref.is_file() else revision) / file
    if found.exists():
        return found
    command = _how_to_download(kind, repository, revision, file, cache)
    raise FileNotFoundError(f"{text}: expected it in the cache of the Hugging Face Hub ({cache}); get it by: {command}")


def _parsed(name):
    match = NAME.fullmatch(name)
    kind, repository, revision, file = match.groups() if match else ("", "", None, None)
    # A slash of a branch is written `%2F`.
    revision = re.sub("%2f", "/", revision or "main", flags=re.IGNORECASE)
    file = (file or "").rstrip("/")
    if match is None or ".." in revision.split("/") or ".." in file.split("/"):
        raise ValueError(f"expected {FORM}, got {name}")
    return "dataset" if kind else "model", repository, revision, file


def _given(*names):
    return next((os.environ[name] for name in names if os.environ.get(name)), None)


def _cache():
    caches = _given("XDG_CACHE_HOME") or "~/.cache"
    everything = _given("HF_HOME") or os.path.join(caches, "huggingface")
    own = _given("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE") or os.path.join(everything, "hub")
    return Path(os.path.abspath(os.path.expanduser(own)))


def _how_to_download(kind, repository, revision, file, cache):
    mirror = _given("HF_ENDPOINT")
    words = [f"HF_ENDPOINT={mirror}"] if mirror else []
    words += ["HF_HUB_OFFLINE=0"] if re.fullmatch("1|true|yes|on", os.environ.get("HF_HUB_OFFLINE", ""), re.I) else []
    words += ["hf", "download", repository]
    if file:
        words += [file] if Path(file).suffix else ["--include", f"{file}/*"]
    words += ["--repo-type", "dataset"] if kind == "dataset" else []
    words += ["--revision", revision] if revision != "main" else []
    return shlex.join([*words, "--cache-dir", str(cache)])
