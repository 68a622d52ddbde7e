"""Hypothesis strategies for launches: small JSON-able descriptors, never tensors.

They draw ints, floats, strings, tuples of ints and `Case`s whose `repr` is valid Python. Every draw is valid: nothing is filtered or
rejected. Each shrinks towards what a person would have written.
`docs/strategies.md` shows them all; the tensors of a descriptor are made by
`difftest.tensors`, `difftest.position_ids`, `difftest.block_tables` and `difftest.ragged`.
"""

from difftest.strategies.edges import extents
from difftest.strategies.elements import dtypes, fills, layouts, seeds
from difftest.strategies.grids import patch_grids, scales
from difftest.strategies.paging import block_tables, context_parallel, query_start_locs
from difftest.strategies.position_ids import position_ids
from difftest.strategies.scalars import scalars

__all__ = [
    "block_tables",
    "context_parallel",
    "dtypes",
    "extents",
    "fills",
    "layouts",
    "patch_grids",
    "position_ids",
    "query_start_locs",
    "scalars",
    "scales",
    "seeds",
]
