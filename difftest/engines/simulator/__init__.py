"""The simulator: Triton IR of a launch's own compile key, executed on the CPU for all program instances at once."""
