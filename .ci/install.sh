#!/bin/sh
# Installs npu-tui from the wheels beside this file: no network, no root, no compiler.
#
#   sh install.sh [--prefix DIR] [--python PYTHON]
#
# The command is DIR/bin/npu-tui, all else is in DIR/lib/npu-tui; DIR is ~/.local unless told.
# Run it again to upgrade. To uninstall, remove the two.
set -eu

fail() {
  echo "install.sh: $*" >&2
  exit 1
}

usage="usage: sh install.sh [--prefix DIR] [--python PYTHON]"
prefix=${HOME:-}/.local
pythons="python@PYTHON@ python3 python"
while [ $# -gt 0 ]; do
  case "$1" in
    --prefix=*) prefix=${1#*=} ;;
    --python=*) pythons=${1#*=} ;;
    --prefix) prefix=${2:?"$usage"}; shift ;;
    --python) pythons=${2:?"$usage"}; shift ;;
    -h | --help) echo "$usage"; exit ;;
    *) fail "$usage" ;;
  esac
  shift
done

machine=$(uname -m)
[ "$machine" = @ARCH@ ] || fail "these wheels are for @ARCH@, this machine is $machine"
python=
for name in $pythons; do
  if "$name" -I -c 'import sys, venv; sys.exit("%d.%d" % sys.version_info[:2] != "@PYTHON@")' 2>/dev/null; then
    python=$name
    break
  fi
done
[ "$python" ] || fail "these wheels need Python @PYTHON@; take those for your Python, or the self-contained bundle"
here=$(cd "$(dirname "$0")" && pwd)
(cd "$here" && sha256sum -c SHA256SUMS >/dev/null) || fail "files are damaged or missing: unpack the archive again"

mkdir -p "$prefix/bin" "$prefix/lib/npu-tui"
prefix=$(cd "$prefix" && pwd)
home=$prefix/lib/npu-tui/@VERSION@
trap 'rm -rf "$home"; fail "nothing is installed"' EXIT
"$python" -I -m venv --clear --without-pip "$home/python"
set -- "$here"/wheels/pip-*.whl
"$home/python/bin/python" -I "$1/pip" --isolated --disable-pip-version-check --no-cache-dir \
  install --quiet --no-index --find-links "$here/wheels" "npu-tui[@EXTRAS@]==@VERSION@"
cp "$here/launcher" "$home/npu-tui"
"$home/npu-tui" --version
trap - EXIT
ln -sfn "$home/npu-tui" "$prefix/bin/npu-tui"
for old in "$prefix/lib/npu-tui"/*; do
  [ "$old" = "$home" ] || rm -rf "$old"
done
case ":$PATH:" in
  *":$prefix/bin:"*) ;;
  *) echo "Run $prefix/bin/npu-tui demo, or put $prefix/bin on the PATH." ;;
esac
