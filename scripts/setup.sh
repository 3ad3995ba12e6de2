#!/usr/bin/env bash
# Makes .venv ready: `scripts/setup.sh run` for the demo, `test` for everything else, then `bench` for the benchmarks.
# `page STAMP` makes node_modules ready, with which the page's JavaScript is checked.
# The Makefile calls it when the stamp of the requirement file is missing; PYTHON names another interpreter.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python=${PYTHON:-python3}
venv=.venv

say() { printf 'setup: %s\n' "$*"; }

refuse() {
  printf 'setup: %s\n' "$@" >&2
  exit 1
}

stamp() { printf '%s/.%s-%s' "$venv" "$1" "$(sha256sum "requirements/$1.txt" | cut -c1-16)"; }

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

check_python() {
  command -v "$python" >/dev/null ||
    refuse "$python was not found. On Debian: apt-get install python3 python3-venv"
  new_enough "$python" ||
    refuse "Inturn needs Python 3.11 or newer, and $python is $("$python" -V 2>&1)." \
      "Name another one: make PYTHON=python3.12 ..."
  $has_uv || "$python" -c 'import ensurepip' 2>/dev/null ||
    refuse "$python cannot make virtual environments. On Debian: apt-get install python3-venv"
}

# An environment cut short, made by uv while uv is gone, or whose Python was removed, is made again.
usable() {
  [ -x "$venv/bin/python" ] && new_enough "$venv/bin/python" || return 1
  $has_uv || "$venv/bin/python" -m pip --version >/dev/null 2>&1
}

make_venv() {
  check_python
  if $has_uv; then
    say "new environment in $venv, made by uv with $("$python" -V)"
    uv venv --quiet --clear --python "$python" "$venv"
  else
    say "new environment in $venv, made by venv and pip with $("$python" -V)"
    "$python" -m venv --clear "$venv"
  fi
}

# A lock names every package, so nothing is left to resolve. Asked to resolve one, pip wants the hash of whatever is newest
# for a requirement with extras ("coverage[toml]") and refuses the lock on the day that a newer version appears.
install_lock() { install --no-deps --require-hashes -r "requirements/$1.txt"; }

install() {
  if $has_uv; then
    uv pip install --quiet --compile-bytecode --python "$venv/bin/python" "$@"
  else
    "$venv/bin/python" -m pip install -qq --disable-pip-version-check --no-input "$@"
  fi
}

# The tests start servers and a browser of their own. Where a program is missing they are skipped at home and fail with
# CI=true.
missing_programs() {
  [ -n "${INTURN_TEST_POSTGRES-}" ] || command -v initdb >/dev/null || compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null ||
    echo postgresql
  command -v redis-server >/dev/null || echo redis-server
  compgen -G '/usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin/rabbitmq-server' >/dev/null || echo rabbitmq-server
  compgen -G '/usr/lib/*/faketime/libfaketimeMT.so.1' >/dev/null || echo libfaketime
  command -v chromium-headless-shell >/dev/null || printf '%s\n' chromium-headless-shell fonts-dejavu-core
}

apt_install() {
  DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 -o Dpkg::Options::=--force-confold \
    install -y --no-install-recommends "$@" >/dev/null
}

install_programs() {
  local missing
  missing=$(missing_programs | tr '\n' ' ')
  [ -n "$missing" ] || return 0
  if ! command -v apt-get >/dev/null || [ "$(id -u)" -ne 0 ]; then
    say "not here: ${missing% }; tests that need them are skipped. On Debian, as root: apt-get install ${missing% }"
    return
  fi
  say "installing Debian's ${missing% }, for the tests; no server of the system is made or started"
  local policy=/usr/sbin/policy-rc.d mine=false
  if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
    mine=true
  fi
  mkdir -p /etc/postgresql-common
  [ -e /etc/postgresql-common/createcluster.conf ] ||
    printf 'create_main_cluster = false\n' >/etc/postgresql-common/createcluster.conf
  apt-get -q -o DPkg::Lock::Timeout=300 update >/dev/null
  # Older systems have no chromium-headless-shell; the tests take chromium as well, and take longer.
  # shellcheck disable=SC2086 # one word a package
  apt_install $missing || apt_install ${missing/chromium-headless-shell/chromium} ||
    say "could not be installed: ${missing% }; their tests are skipped"
  if $mine; then rm -f "$policy"; fi
}

# What eslint wants.
new_enough_node() {
  command -v node >/dev/null && command -v npm >/dev/null &&
    node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit((a === 20 ? b < 19 : a === 22 ? b < 13 : a < 24) ? 1 : 0)'
}

# At home the rest of `make lint` runs without them, and says so; in CI a check that cannot run is a failure.
install_page_tools() {
  new_enough_node || [ -x "$venv/bin/npm" ] || {
    say "no node 20.19, 22.13 or newer here: installing requirements/node.txt, every hash checked, into $venv"
    install_lock node
  } || return 1
  say "installing package-lock.json, every hash checked, into node_modules: eslint and tsc for the page's JavaScript"
  PATH="$PATH:$PWD/$venv/bin" npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null
}

if command -v uv >/dev/null; then has_uv=true; else has_uv=false; fi
usable || make_venv
case ${1-} in
  run)
    say "installing requirements/run.txt, every hash checked: what Inturn needs to run"
    install_lock run
    rm -f "$venv"/.run-*
    ;;
  test)
    install_programs & # Debian's packages and Python's come at the same time
    programs=$!
    trap wait EXIT # a failure below does not leave a half-installed package behind
    say "installing requirements/test.txt, every hash checked: what Inturn needs to run, and the tools that check it"
    install_lock test
    say "installing Inturn itself from src/, editable: for the tests and the command $venv/bin/inturn"
    install --no-deps --no-build-isolation --editable .
    wait "$programs"
    rm -f "$venv"/.run-* "$venv"/.test-*
    touch "$(stamp test)" # test.txt holds all of run.txt
    ;;
  bench)
    say "installing requirements/bench.txt, every hash checked: what Inturn is measured against"
    install_lock bench
    rm -f "$venv"/.bench-*
    touch "$(stamp bench)"
    ;;
  page)
    if install_page_tools; then
      rm -f "$venv"/.page-*
      touch "$2"
    elif [ "${CI-}" = true ]; then
      refuse "node or its packages could not be installed, so the page's JavaScript cannot be checked"
    else
      say "the page's JavaScript is not checked: install node 20.19 or newer with npm, and let npm reach its packages"
    fi
    exit
    ;;
  *) refuse "usage: scripts/setup.sh run|test|bench|page STAMP" ;;
esac
touch "$(stamp run)"
