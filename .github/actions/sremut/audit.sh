#!/usr/bin/env bash
# What action.yml does with its inputs, which all come in through the environment.
#   PHASE=plan|run|adjudicate|all PROJECT=… AUDITS=… … audit.sh
set -euo pipefail

export PATH=$RUNNER_TEMP/sremut-venv/bin:$PATH  # kind of the pinned release comes first
bin=$RUNNER_TEMP/sremut-venv/bin
workspace=$PWD
cd "$PROJECT"
[ -n "$EVIDENCE" ] || EVIDENCE=$RUNNER_TEMP/evidence
read -ra more <<<"${PYTEST_ARGS//$'\n'/ }"
# shellcheck disable=SC2153 # capital names are the environment's, small ones our own
read -ra studies <<<"${STUDIES//$'\n'/ }"

# The cache would make a work tree dirty, and a benchmark must stay clean.
common=(-p no:cacheprovider "--rootdir=$PWD" -o "sremut_audits=$AUDITS")
common+=("--sremut-require=$REQUIRE")
[ -z "$BASELINE" ] || common+=("--sremut-baseline=$BASELINE")
paths=("${studies[@]/#/$AUDITS/}")
[ ${#studies[@]} -gt 0 ] || paths=("$AUDITS")

plan() {
  local profile=$PROFILE matrix
  if [ -z "$profile" ]; then
    profile=${CLUSTER%%:*}
    [ "$profile" != context ] || profile=kind
  fi
  local options=(--json "--by=$BY" "--profile=$profile" "--audits=$AUDITS")
  [ -n "$BENCHMARK" ] || options+=(--without-benchmark)
  matrix=$("$bin/sremut" matrix "${options[@]}" "${studies[@]}")
  echo "matrix=$matrix" >>"$GITHUB_OUTPUT"
}

run() {
  local options=("${common[@]}" "--sremut-cluster=$CLUSTER" "--sremut-evidence=$EVIDENCE")
  [ -z "$PROFILE" ] || options+=("--sremut-profile=$PROFILE")
  if [ -n "$BENCHMARK" ]; then
    [[ $BENCHMARK == /* ]] || BENCHMARK=$workspace/$BENCHMARK
    options+=("--sremut-benchmark=$BENCHMARK")
  fi
  [ -z "$BENCHMARK_PYTHON" ] ||
    options+=("--sremut-benchmark-python=$RUNNER_TEMP/benchmark-venv/bin/python")
  [ -z "$KEYWORD" ] || options+=(-k "$KEYWORD")
  [ -z "$AUDIT_PATH" ] || paths=("$AUDIT_PATH")
  "$bin/pytest" "${paths[@]}" "${options[@]}" "${more[@]}"
}

adjudicate() {
  local options=("${common[@]}" --sremut-adjudicate) directories directory code=0 found=0
  directories=("$EVIDENCE"/*)                                 # an artefact of each job
  [ ! -d "$EVIDENCE/attempts" ] || directories=("$EVIDENCE")  # or one session's own
  for directory in "${directories[@]}"; do
    if [ -d "$directory/attempts" ]; then
      options+=("--sremut-evidence=$directory")
      found=$((found + 1))
    else
      # The logs of a cluster, at most.
      echo "::warning::no attempt was begun in $(basename "$directory")"
    fi
  done
  if [ "$found" = 0 ]; then
    echo "::error::there is no evidence to judge"
    return 1
  fi
  "$bin/pytest" "${paths[@]}" "${options[@]}" "--sremut-report=md:$GITHUB_STEP_SUMMARY" "${more[@]}" || code=$?
  if [ -f .sremut/ledger.json ]; then
    echo "ledger=$PWD/.sremut" >>"$GITHUB_OUTPUT"
    echo "score=$("$bin/sremut" scores .sremut/ledger.json)" >>"$GITHUB_OUTPUT"
  fi
  return "$code"
}

case $PHASE in
  plan | run | adjudicate) "$PHASE" ;;
  all)
    code=0
    run || code=$?
    adjudicate || code=$?
    exit "$code"
    ;;
  *)
    echo "::error::phase: found '$PHASE'; allowed: all, plan, run, adjudicate"
    exit 2
    ;;
esac
