"""Source of the compiled libraries, in the subset of Python that Numba compiles; never imported at run time."""
