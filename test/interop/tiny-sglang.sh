#!/usr/bin/env bash
# A real SGLang (0.5.23) that serves the tiny model of tiny-vllm.sh on 127.0.0.1:$PORT, on a CPU: no model download.
#   test/interop/tiny-sglang.sh install   once: about 6 GB and one minute; needs Python 3.11 and PyPI
#   test/interop/tiny-sglang.sh serve     in the foreground; ready after a minute, 4 GB of memory. It serves an adapter,
#                                         too, unless TINY_SGLANG_NO_ADAPTER is set; further flags are SGLang's
#   test/interop/tiny-sglang.sh python | logprobs | checkpoint | adapters    as those of tiny-vllm.sh
# All work in TINY_SGLANG_DIR (default: tiny-sglang in the user's cache); PORT defaults to 8421.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
dir="${TINY_SGLANG_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/durable-rollouts/tiny-sglang}"
python="$dir/venv/bin/python"
export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 DO_NOT_TRACK=1

install() {
  mkdir -p "$dir"
  [ -x "$python" ] || python3 -m venv "$dir/venv"
  "$dir/venv/bin/pip" install -q uv
  # Its list of requirements has CUDA libraries that a CPU cannot use: what the server imports is listed here.
  "$dir/venv/bin/uv" pip install --python "$python" -r "$here/sglang-requirements.txt"
  "$dir/venv/bin/uv" pip install --python "$python" --no-deps sglang==0.5.23
  [ -f "$dir/model/config.json" ] || "$python" "$here/make_tiny_model.py" "$dir/model"
  [ -f "$dir/adapter/adapter_config.json" ] || "$python" "$here/make_lora.py" "$dir/adapter" "$dir/model"
}

serve() {
  local adapter=(--enable-lora --lora-backend torch_native --max-lora-rank 8 --lora-target-modules q_proj v_proj --lora-paths adapter=adapter)
  [ -z "${TINY_SGLANG_NO_ADAPTER:-}" ] || adapter=()
  export SGLANG_USE_CPU_ENGINE=1 PYTHONPATH="$here/sglang-kernels" OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
  # Otherwise each start compiles all of torch again.
  unset PYTHONDONTWRITEBYTECODE
  cd "$dir"
  # Without a limit its cache takes most of the machine's memory.
  exec "$python" -W ignore -m sglang.launch_server --model-path model --served-model-name tiny \
    --host 127.0.0.1 --port "${PORT:-8421}" --device cpu --dtype float32 --context-length 514 \
    --attention-backend torch_native --sampling-backend pytorch --grammar-backend none --disable-overlap-schedule \
    --skip-server-warmup --max-total-tokens 32768 --max-running-requests 64 --enable-metrics \
    --incremental-streaming-output "${adapter[@]}" "$@"
}

case "${1:-}" in
install) install ;;
serve) shift && serve "$@" ;;
python) echo "$python" ;;
logprobs) exec "$python" "$here/recompute_logprobs.py" "${2:-$dir/model}" ;;
checkpoint) shift && exec "$python" "$here/make_tiny_model.py" "$@" ;;
adapters) exec "$python" "$here/make_lora.py" "$2" "$dir/model" "${@:3}" ;;
*)
  echo 'usage: tiny-sglang.sh install | serve [flags] | python | logprobs [CHECKPOINT] | checkpoint FOLDER SEED [POSITIONS] | adapters FOLDER SEED …' >&2
  exit 2
  ;;
esac
