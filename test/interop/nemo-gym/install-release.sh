#!/usr/bin/env bash
# A release of NeMo Gym for nemo-gym-gateway.test.ts, and a venv with it.
# Usage: install-release.sh DIR [VERSION]; needs Python 3.12 or later (PYTHON names it). About 1.5 GB, a minute or two.
set -euo pipefail
dir=${1:?usage: install-release.sh DIR [VERSION]}
version=${2:-0.7.0}
parts=(responses_api_models/vllm_model responses_api_agents/simple_agent
  resources_servers/mcqa resources_servers/example_multi_step environment_servers/legacy_agent)
mkdir -p "$dir/gym/cache" "$dir/wheel" # the first is where its build writes
dir=$(cd "$dir" && pwd)
[ -e "$dir/venv" ] || "${PYTHON:-python3}" -m venv "$dir/venv"
pip="$dir/venv/bin/pip"
"$pip" install --quiet uv
"$pip" download --quiet --no-deps --ignore-requires-python --dest "$dir" "nemo-gym==$version"
"$dir/venv/bin/python" -m zipfile -e "$dir/nemo_gym-$version-py3-none-any.whl" "$dir/wheel"
# It asks for the newest 3.13; what is tested here needs none of its news.
about="$dir/wheel/nemo_gym-$version.dist-info/METADATA"
sed -i 's/^Requires-Python: .*/Requires-Python: >=3.12/' "$about"
sed -n 's/^Requires-Dist: //p' "$about" | grep -v 'extra ==' > "$dir/requirements.txt"
"$dir/venv/bin/uv" pip install --quiet --python "$dir/venv/bin/python" -r "$dir/requirements.txt"
relaxed="$dir/relaxed/nemo_gym-$version-py3-none-any.whl"
mkdir -p "$dir/relaxed"
(cd "$dir/wheel" && "$dir/venv/bin/python" -m zipfile -c "$relaxed" nemo_gym "nemo_gym-$version.dist-info")
"$dir/venv/bin/uv" pip install --quiet --no-deps --python "$dir/venv/bin/python" "$relaxed"
# Each server would have a venv of its own: one for all does.
for part in "${parts[@]}"; do
  mkdir -p "$dir/gym/$part"
  [ -e "$dir/wheel/$part" ] && cp -r "$dir/wheel/$part/." "$dir/gym/$part"
  ln -sfn "$dir/venv" "$dir/gym/$part/.venv"
done
mkdir -p "$dir/gym/responses_api_models/gateway"
ln -sfn "$dir/venv" "$dir/gym/responses_api_models/gateway/.venv"
echo "ROLLOUT_INTEROP_NEMO_GYM_RELEASE=$dir npm run test:interop"
