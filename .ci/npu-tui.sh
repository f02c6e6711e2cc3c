#!/bin/sh
''':'
# The shell starts the Python beside this file, whatever PYTHONPATH says, and Python goes on below.
here=$(readlink -f "$0")
python=${here%/*}/python
# Without /proc, as in a bare chroot, the loader cannot tell where a program and so its libraries lie.
[ -e /proc/self/exe ] || export LD_LIBRARY_PATH="$python/lib"
exec "$python/bin/@PYTHON@" -I "$0" "$@"
'''
import sys

from npu_tui.cli.main import main

sys.exit(main())
