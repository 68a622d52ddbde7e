"""Planted defects: source edits of the shipped kernels, each a mistake that was made somewhere, with the finding that must name it."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

KERNELS = Path(__file__).resolve().parents[2] / "kernels"


@dataclass(frozen=True)
class PlantedDefect:
    """A mistake in one kernel file: `edits` are (old text, new text), and the finding is of one of the kinds in `finder`."""

    name: str
    op: str
    edits: tuple[tuple[str, str], ...]
    finder: tuple[str, ...]

    def source(self) -> str:
        """Return the kernel file with the defect in it.

        Raises:
            ValueError: when an old text does not occur exactly once in the shipped file.

        """
        text = (KERNELS / f"{self.op}.py").read_text(encoding="utf-8")
        for old, new in self.edits:
            if (found := text.count(old)) != 1:
                raise ValueError(f"{self.name}: {old!r} occurs {found} times in kernels/{self.op}.py; expected once: adapt the edit")
            text = text.replace(old, new)
        return text


@contextlib.contextmanager
def planted_kernel_module(defect: PlantedDefect) -> Iterator[ModuleType]:
    """Yield the defective module, which is `kernels.<op>` for whoever imports it inside the block."""
    with tempfile.TemporaryDirectory(prefix="planted-") as directory:
        # A real file: Triton reads the source of a kernel from it, and the simulator its lines.
        path = Path(directory) / f"{defect.op}.py"
        path.write_text(defect.source(), encoding="utf-8")
        with _imported_as(f"kernels.{defect.op}", path) as module:
            yield module


@contextlib.contextmanager
def _imported_as(name: str, path: Path) -> Iterator[ModuleType]:
    package = importlib.import_module("kernels")
    attribute = name.rpartition(".")[2]
    shipped, bound = sys.modules.get(name), vars(package).get(attribute)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    _set(sys.modules, name, module)
    _set(vars(package), attribute, module)
    try:
        spec.loader.exec_module(module)
        yield module
    finally:
        _set(sys.modules, name, shipped)
        _set(vars(package), attribute, bound)


def _set(namespace: dict[str, ModuleType], name: str, module: ModuleType | None) -> None:
    if module is None:
        namespace.pop(name, None)
    else:
        namespace[name] = module


BILINEAR = (
    PlantedDefect(
        "H and W swapped in the index",
        "bilinear_pos_embed",
        (
            ("e00_ptr = embed_ptr + (h0 * NUM_GRID + w0) * HIDDEN_DIM", "e00_ptr = embed_ptr + (w0 * NUM_GRID + h0) * HIDDEN_DIM"),
            ("e01_ptr = embed_ptr + (h0 * NUM_GRID + w1) * HIDDEN_DIM", "e01_ptr = embed_ptr + (w1 * NUM_GRID + h0) * HIDDEN_DIM"),
            ("e10_ptr = embed_ptr + (h1 * NUM_GRID + w0) * HIDDEN_DIM", "e10_ptr = embed_ptr + (w0 * NUM_GRID + h1) * HIDDEN_DIM"),
            ("e11_ptr = embed_ptr + (h1 * NUM_GRID + w1) * HIDDEN_DIM", "e11_ptr = embed_ptr + (w1 * NUM_GRID + h1) * HIDDEN_DIM"),
        ),
        ("disagreement",),
    ),
    PlantedDefect(
        "merge order ignored",
        "bilinear_pos_embed",
        (
            ("row = (block // blocks_across) * M_SIZE + in_block // M_SIZE", "row = in_frame // W"),
            ("col = (block % blocks_across) * M_SIZE + in_block % M_SIZE", "col = in_frame % W"),
        ),
        ("disagreement",),
    ),
    PlantedDefect(
        # The upper neighbour is kept inside the grid by moving the lower one, after the fraction was taken.
        "floor off by one at the last row",
        "bilinear_pos_embed",
        (("h0 = h_floor.to(tl.int64)", "h0 = tl.maximum(tl.minimum(h_floor.to(tl.int64), NUM_GRID - 2), 0)"),),
        ("disagreement",),
    ),
    PlantedDefect(
        "a weight not cast",
        "bilinear_pos_embed",
        (("    w11 = w11.to(out_dtype)\n", ""),),
        ("strict disagreement",),
    ),
    PlantedDefect(
        "tail mask dropped",
        "bilinear_pos_embed",
        (
            (
                "tl.store(row_ptr + column, value.to(out_dtype), mask=in_row)",
                "tl.store(row_ptr + column, value.to(out_dtype))",
            ),
        ),
        ("guard band write", "out of bounds"),
    ),
    PlantedDefect(
        "bilinear_pos_embed: production list emptied",
        "bilinear_pos_embed",
        (('@triton.jit(do_not_specialize=["H", "W"])', "@triton.jit"),),
        ("contract breach",),
    ),
    PlantedDefect(
        "bilinear_pos_embed: W dropped from the production list",
        "bilinear_pos_embed",
        (('do_not_specialize=["H", "W"]', 'do_not_specialize=["H"]'),),
        ("contract breach",),
    ),
)

NEOX_OR_GPTJ = """\
    if NEOX_STYLE:
        first = pair
        second = pair + HALF_ROTARY
    else:
        first = 2 * pair
        second = 2 * pair + 1
"""

MROPE = (
    PlantedDefect(
        # Qwen3.5's (11, 11, 10) comes first and moves one channel, the slowest: its angles are so alike that only bits tell.
        "H and W sections swapped",
        "mrope",
        (("section_t, section_h, section_w = mrope_section", "section_t, section_w, section_h = mrope_section"),),
        ("disagreement", "strict disagreement"),
    ),
    PlantedDefect(
        "interleaved taken as chunked",
        "mrope",
        (("        INTERLEAVED=interleaved,\n", "        INTERLEAVED=False,\n"),),
        ("disagreement",),
    ),
    PlantedDefect(
        "pair style ignored",
        "mrope",
        ((NEOX_OR_GPTJ, "    first = pair\n    second = pair + HALF_ROTARY\n"),),
        ("disagreement",),
    ),
    PlantedDefect(
        # The other half of the head instead of the other half of its rotary part.
        "rotary tail written",
        "mrope",
        (("second = pair + HALF_ROTARY", "second = pair + HEAD_SIZE // 2"),),
        ("disagreement",),
    ),
    PlantedDefect(
        "padded head written",
        "mrope",
        (("inside = (head < NUM_HEADS)[:, None] & in_rotary[None, :]", "inside = in_rotary[None, :]"),),
        ("guard band write", "out of bounds", "disagreement"),
    ),
    PlantedDefect(
        "cos read past its row",
        "mrope",
        (("cos = tl.load(cos_ptr + angle, mask=in_rotary)", "cos = tl.load(cos_ptr + angle)"),),
        ("out of bounds",),
    ),
    PlantedDefect(
        # The list has one name: dropping it is the same.
        "mrope: production list emptied",
        "mrope",
        (('@triton.jit(do_not_specialize=["num_tokens"])', "@triton.jit"),),
        ("contract breach",),
    ),
)

SLOT_MAPPING = (
    PlantedDefect(
        "tile start aligned to the tile",
        "slot_mapping",
        (("for tile_start in range(start, end, TILE):", "for tile_start in range(start // TILE * TILE, end, TILE):"),),
        ("disagreement",),
    ),
    PlantedDefect(
        "rank and world swapped",
        "slot_mapping",
        (("local = (in_virtual // il) % ws == rank", "local = (in_virtual // il) % rank == ws"),),
        ("disagreement",),
    ),
    PlantedDefect(
        "block product in int32",
        "slot_mapping",
        (("slot = block.to(tl.int64) * block_size + offset % block_size", "slot = block * block_size + offset % block_size"),),
        ("disagreement",),
    ),
    PlantedDefect(
        "column bound dropped",
        "slot_mapping",
        ((" & local & (column < block_table_width)", " & local"),),
        ("out of bounds", "disagreement"),
    ),
    PlantedDefect(
        "padding off by one",
        "slot_mapping",
        (("first_pad = tl.cast(num_tokens, tl.int64)", "first_pad = tl.cast(num_tokens, tl.int64) + 1"),),
        ("unwritten output",),
    ),
    PlantedDefect(
        "slot_mapping: production list emptied",
        "slot_mapping",
        (('@triton.jit(do_not_specialize=["num_tokens", "max_num_tokens"])', "@triton.jit"),),
        ("contract breach",),
    ),
    PlantedDefect(
        "slot_mapping: max_num_tokens dropped from the production list",
        "slot_mapping",
        (('do_not_specialize=["num_tokens", "max_num_tokens"]', 'do_not_specialize=["num_tokens"]'),),
        ("contract breach",),
    ),
)

PLANTED = (*BILINEAR, *MROPE, *SLOT_MAPPING)
