#!/usr/bin/env bash
# Checks the page's JavaScript: types with tsc, of the API's JSON too, and with eslint what types do not see.
# `make lint` calls it with the stamp that scripts/setup.sh leaves; without node, only CI fails.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [ ! -e "$1" ]; then
  [ "${CI-}" != true ]
  exit
fi
PATH="$PATH:$PWD/.venv/bin"
.venv/bin/python scripts/page_types.py
node node_modules/eslint/bin/eslint.js src/inturn/http/static tests/support &
eslint=$!
types=0
node node_modules/typescript/bin/tsc --pretty false || types=$?
wait "$eslint"
[ "$types" -eq 0 ] && echo 'page: tsc and eslint found nothing'
