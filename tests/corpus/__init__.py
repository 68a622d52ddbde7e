"""A corpus of small kernels: what an H200 computes for each operation of ordinary TTIR, kept as data."""
