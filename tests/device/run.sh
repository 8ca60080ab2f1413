#!/usr/bin/env bash
# What only a machine with a CUDA GPU can show, in at most 8 minutes: run by hand, never part of CI.
# Needs no network: it makes its own checkpoint. PYTHON names an interpreter that has requirements.txt and a CUDA torch.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
LEVERS_CACHE="$work/cache" timeout 480 "${PYTHON:-python3}" tests/device/check.py "$work" "$@"
