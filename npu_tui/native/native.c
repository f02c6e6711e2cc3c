/* The library: one translation unit, built by build.py. */

#include "args.c"
#include "cells.c"
#include "columns.c"
#include "replay.c"
#include "rows.c"
#include "scan.c"
#include "spans.c"
#include "stacks.c"
