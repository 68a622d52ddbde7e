"""Block tables of a paged cache: from a descriptor to a tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from difftest.case import Case
from difftest.errors import InvalidCase, suggestion
from difftest.tensors import Tensors

if TYPE_CHECKING:
    from collections.abc import Sequence

NULL_BLOCK = 0
_LARGEST_ID = 2**31 - 1
_NULL_ONE_IN = 8


def block_table_tensor(  # noqa: PLR0913 - a descriptor, two sizes and where the table lives
    descriptor: Case, rows: int, width: int, *, device: torch.device | str, seed: int = 0, used: Sequence[int] | None = None
) -> torch.Tensor:
    """Return the block ids of `rows` requests, int32 `(rows, columns)`, where columns is `width` less `descriptor.narrow`, at least 0.

    `width` is the number of columns that the longest context needs and `used` the number that each request needs (all, when left out). The
    columns from `used` on are the tail: null blocks or garbage. Ids are distinct except for the shared prefix, null blocks and the tail.
    With `descriptor.row_gap` the table is a view of a wider buffer, whose other columns hold garbage.

    Raises:
        InvalidCase: for an unknown kind of ids or tail, a `used` of another length, or more blocks than int32 can number.

    """
    _check(descriptor, rows, width, used)
    tensors = Tensors(seed, device)
    columns = torch.arange(width, device=tensors.device)
    table = _ids(descriptor, tensors, rows, width)
    if rows:
        table = torch.where(columns < descriptor.shared_prefix, table[:1], table)
    if descriptor.null_inside:
        table = _with_null_blocks(table, tensors)
    if used is not None:
        tail = columns >= torch.tensor(tuple(used), dtype=torch.int64, device=tensors.device).reshape(rows, 1)
        table = torch.where(tail, _tail(descriptor, tensors, rows, width), table)
    layout = Case(offset=descriptor.offset, row_gap=descriptor.row_gap)
    return tensors.from_values(table[:, : max(width - descriptor.narrow, 0)], torch.int32, layout)


def _ids(descriptor: Case, tensors: Tensors, rows: int, width: int) -> torch.Tensor:
    """Return distinct ids from 1, in order or permuted, or from the largest int32 downwards; int64 `(rows, width)`."""
    count = rows * width
    order = torch.arange(count, device=tensors.device) if descriptor.ids == "ascending" else tensors.permutation("block_table", count)
    ids = _LARGEST_ID - order if descriptor.ids == "huge" else order + 1
    return ids.reshape(rows, width)


def _with_null_blocks(table: torch.Tensor, tensors: Tensors) -> torch.Tensor:
    """Return the table with about one block in eight null, and at least one in each row."""
    rows, width = table.shape
    if not width:
        return table
    null = tensors.integers("block_table/null", (rows, width), torch.int64, low=1, high=_NULL_ONE_IN) == 1
    column = tensors.integers("block_table/null_column", (rows, 1), torch.int64, low=0, high=width - 1)
    return table.masked_fill(null.scatter(1, column, True), NULL_BLOCK)  # noqa: FBT003 - the value that scatter writes


def _tail(descriptor: Case, tensors: Tensors, rows: int, width: int) -> torch.Tensor:
    if descriptor.tail == "null":
        return torch.full((rows, width), NULL_BLOCK, dtype=torch.int64, device=tensors.device)
    return tensors.integers("block_table/tail", (rows, width), torch.int64, low=0, high=_LARGEST_ID)


def _check(descriptor: Case, rows: int, width: int, used: Sequence[int] | None) -> None:
    for field, known in (("ids", ("ascending", "permuted", "huge")), ("tail", ("null", "garbage"))):
        if descriptor[field] not in known:
            raise InvalidCase(f"block table: {field}={descriptor[field]!r} is unknown{suggestion(str(descriptor[field]), known)}")
    if used is not None and len(used) != rows:
        raise InvalidCase(f"block table: used has {len(used)} entries for {rows} rows; give one number of columns a row")
    if rows * width >= _LARGEST_ID:
        raise InvalidCase(f"block table: {rows} x {width} distinct blocks do not fit int32; draw fewer rows or columns")
