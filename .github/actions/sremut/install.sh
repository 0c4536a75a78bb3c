#!/usr/bin/env bash
# Two interpreters that cannot see each other's packages: pytest-sremut's, from the very commit of
# this action, and the benchmark's own where a study needs it. And the kind release that is pinned.
set -euo pipefail

venv=$RUNNER_TEMP/sremut-venv
"$PYTHON" -m venv "$venv"
"$venv/bin/pip" install -q --disable-pip-version-check "$GITHUB_ACTION_PATH/../../..[xdist]"
if [ -n "$BENCHMARK_PYTHON" ]; then
  read -ra requirements <<<"${BENCHMARK_REQUIREMENTS//$'\n'/ }"
  "$BENCHMARK_PYTHON" -m venv "$RUNNER_TEMP/benchmark-venv"
  "$RUNNER_TEMP/benchmark-venv/bin/pip" install -q --disable-pip-version-check -- "${requirements[@]}"
fi
if [ "$CLUSTER" = kind ] && { [ "$PHASE" = run ] || [ "$PHASE" = all ]; }; then
  # Go checks the module against its public checksum database.
  release=$("$venv/bin/python" -c 'from pytest_sremut.cluster.kind.settings import pins; print(pins().kind)')
  GOBIN=$venv/bin go install "sigs.k8s.io/kind@$release"
fi
