#!/usr/bin/env bash
# A real NeMo Gym for the interop test: its source at the commit that this project is held to, and a venv with it.
# Usage: install.sh DIR [GIT_URL]; needs git and Python 3.12 or later (PYTHON names it). About 1.5 GB, a minute or two.
set -euo pipefail
dir=${1:?usage: install.sh DIR [GIT_URL]}
url=${2:-https://github.com/NVIDIA-NeMo/Gym}
commit=07d6b0d07b22fcf530b4c211dae2ee23100428e4
parts=(nemo_gym responses_api_models/vllm_model responses_api_agents/simple_agent
  resources_servers/mcqa resources_servers/example_multi_step)
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
if [ ! -e "$dir/gym/pyproject.toml" ]; then
  git clone --quiet --filter=blob:none --no-checkout "$url" "$dir/gym"
  git -C "$dir/gym" sparse-checkout set "${parts[@]}"
  git -C "$dir/gym" checkout --quiet "$commit"
fi
mkdir -p "$dir/gym/cache" # where its build writes
# It asks for the newest 3.13; what is tested here needs none of its news.
sed -i 's/^requires-python = .*/requires-python = ">=3.12"/' "$dir/gym/pyproject.toml"
[ -e "$dir/venv" ] || "${PYTHON:-python3}" -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet uv
"$dir/venv/bin/uv" pip install --quiet --python "$dir/venv/bin/python" -e "$dir/gym"
# Each server would have a venv of its own: one for all does.
for part in "${parts[@]:1}"; do ln -sfn "$dir/venv" "$dir/gym/$part/.venv"; done
echo "ROLLOUT_INTEROP_NEMO_GYM=$dir npm run test:interop"
