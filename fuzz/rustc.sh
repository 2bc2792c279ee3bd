#!/bin/sh
# The compiler with what libFuzzer needs to see which code an input reaches, and with the checks of debug builds. As
# RUSTC_WORKSPACE_WRAPPER it is for the crates of this repository alone: what they depend on is as `make build` built it.
case " $* " in
*" --crate-name build_script_build "*) exec "$@" ;;
esac
exec "$@" -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
  -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
  -Cllvm-args=-sanitizer-coverage-trace-compares -Cllvm-args=-sanitizer-coverage-stack-depth \
  -Cllvm-args=-simplifycfg-branch-fold-threshold=0 -Cdebug-assertions --cfg fuzzing
