#!/usr/bin/env bash
# Runs the tests of the Unity link on other interpreters and other protobufs, without torch.
#
#     tests/compat/run_link_matrix.sh [PYTHON:PROTOBUF ...]
#
# Each Python gets a virtual environment in a temporary folder, or in $ENVIRONMENTS, which is kept and used again,
# with the tests' output beside them.
# PYTHON is a version that `python<version>` or pyenv knows, PROTOBUF a version for pip. The tests of the headless
# player and of the decoder's kernels, which need no other protobuf than the link's, are left out unless $TESTS names
# them. Not part of CI: it downloads about 200 MiB for each Python and takes two minutes for each pair.
set -euo pipefail

repository="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
pairs=("$@")
if [ ${#pairs[@]} -eq 0 ]; then
    for python_version in 3.11 3.12 3.13; do
        pairs+=("$python_version":{4.25.8,5.29.5,6.33.0,7.36.2})
    done
fi

folder="$(mktemp -d -t agv-bridge-matrix-XXXXXX)"
trap 'rm -rf "$folder"' EXIT
environments="${ENVIRONMENTS:-$folder}"
read -r -a tests <<<"${TESTS:-tests/bridge/unity --ignore=tests/bridge/unity/player --ignore=tests/bridge/unity/wire}"
cd "$repository"

# The checkout that this script is in, also for the players that the tests start.
export PYTHONPATH="$repository"

interpreter() {
    local found
    for found in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$1".*/bin/python; do
        [ -x "$found" ] && echo "$found" && return
    done
    command -v "python$1" || { echo "expected Python $1, got none: install it, or leave it out" >&2; exit 2; }
}

failed=0
for pair in "${pairs[@]}"; do
    python_version="${pair%%:*}"
    protobuf_version="${pair##*:}"
    environment="$environments/$python_version"
    # Compiled kernels of one interpreter are of no use to another.
    export NUMBA_CACHE_DIR="$environment/numba"
    if [ ! -d "$environment" ]; then
        "$(interpreter "$python_version")" -m venv "$environment"
        "$environment/bin/python" -m pip install --quiet --editable "$repository"
        "$environment/bin/python" -m pip install --quiet pytest pytest-timeout hypothesis psutil
    fi
    # grpcio itself does not depend on protobuf: the newest goes with all of them.
    "$environment/bin/python" -m pip install --quiet --no-deps "protobuf==$protobuf_version"
    log="$environments/$python_version-$protobuf_version.log"
    start=$SECONDS
    # The filter is for protobuf 4, whose own extension warns when Python >= 3.12 imports it.
    if "$environment/bin/python" -m pytest -q -p no:cacheprovider -m "not slow" \
        -W "ignore:Type google._upb:DeprecationWarning" "${tests[@]}" >"$log" 2>&1; then
        outcome="passed"
    else
        outcome="FAILED"
        failed=1
    fi
    printf '%-7s Python %-7s protobuf %-8s %4d s  %s\n' "$outcome" "$python_version" "$protobuf_version" \
        $((SECONDS - start)) "$(tail -n 1 "$log")"
    [ "$outcome" = passed ] || grep -E "^(FAILED|ERROR)|Error" "$log" | head -n 20
done
exit $failed
