from __future__ import annotations

import pytest
import torch

from difftest.engines.simulator.mlir import Type, parse_module, parse_type, split_top
from difftest.engines.simulator.program import Program
from difftest.engines.simulator.source import Locations
from difftest.errors import Unsupported

BACKWARD = """
#loc = loc(unknown)
"builtin.module"() ({
  "tt.func"() <{arg_attrs = [{tt.divisibility = 16 : i32}], function_type = (!tt.ptr<i32>) -> (), sym_name = "k"}> ({
  ^bb0(%out: !tt.ptr<i32> loc("out"(#loc))):
    %one = "arith.constant"() <{value = 1 : i32}> : () -> i32 loc(#loc)
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32 loc(#loc)
    %at = "tt.addptr"(%out, %pid) : (!tt.ptr<i32>, i32) -> !tt.ptr<i32> loc(#loc)
    %low = "arith.cmpi"(%pid, %one) <{predicate = 2 : i64}> : (i32, i32) -> i1 loc(#loc)
    "cf.cond_br"(%low, %one)[^bb1, ^bb2] <{operandSegmentSizes = array<i32: 1, 1, 0>}> : (i1, i32) -> () loc(#loc)
  ^bb1(%value: i32 loc("value"(#loc))):  // 2 preds: ^bb0, ^bb2
    "tt.store"(%at, %value) <{boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32}> : (!tt.ptr<i32>, i32) -> () loc(#loc)
    "tt.return"() : () -> () loc(#loc)
  ^bb2:  // pred: ^bb0
    %sum = "arith.addi"(%pid, %pid) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32 loc(#loc)
    "cf.br"(%sum)[^bb1] : (i32) -> () loc(#loc)
  }) {noinline = false} : () -> () loc(#loc)
}) {generic = true} : () -> () loc(#loc)
"""


def test_a_block_that_is_printed_before_one_that_branches_to_it_runs_after_it():
    out = torch.full((4,), 99, dtype=torch.int32)
    Program(BACKWARD).launch((4, 1, 1), [("out", out)], chunk_elements=64, max_loop_rounds=10)
    assert out.tolist() == [1, 2, 4, 6]


def test_the_parts_of_an_operation_are_told_apart():
    blocks = parse_module(BACKWARD).functions["k"].regions[0]
    branch = blocks[0].operations[-1]
    assert [block.label for block in blocks] == ["^bb0", "^bb1", "^bb2"]
    assert (branch.operands, [label for label, _ in branch.successors]) == (("%low", "%one"), ["^bb1", "^bb2"])
    assert branch.attributes == {"operandSegmentSizes": "array<i32: 1, 1, 0>"}
    assert branch.operand_types == (Type((), "i1"), Type((), "i32"))
    assert (blocks[1].arguments, blocks[1].argument_types) == (("%value",), (Type((), "i32"),))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f32", Type((), "f32")),
        ("!tt.ptr<bf16>", Type((), "ptr", "bf16")),
        ('!tt.ptr<f32, "constant">', Type((), "ptr", "f32")),
        ("tensor<32x16x!tt.ptr<f32>>", Type((32, 16), "ptr", "f32")),
        ("tensor<8xi1>", Type((8,), "i1")),
    ],
)
def test_types(text, expected):
    assert parse_type(text) == expected


def test_separators_inside_brackets_and_strings_do_not_separate():
    parts = ['a = "x, \\"y"', "b = array<i32: 1, 2>", "c = (i32, f32) -> i1"]
    assert split_top(", ".join(parts)) == parts


def test_a_line_that_is_no_operation_is_refused():
    with pytest.raises(Unsupported, match="cannot read this line of Triton IR: 'nonsense here'"):
        parse_module(BACKWARD.replace('%one = "arith.constant"() <{value = 1 : i32}> : () -> i32 loc(#loc)', "nonsense here"))


def test_a_location_is_the_innermost_line_outside_tritons_library():
    locations = Locations({
        "#loc1": '"/site-packages/triton/language/standard.py":293:36',
        "#loc2": '"kernels/made_up.py":12:8',
        "#loc3": '"x"(#loc2)',
        "#loc4": "callsite(#loc1 at #loc3)",
        "#loc5": 'callsite(#loc4 at "kernels/outer.py":4:0)',
    })  # fmt: skip
    assert locations.where("#loc5") == "kernels/made_up.py:12"
    assert locations.frames("#loc5")[0] == ("/site-packages/triton/language/standard.py", 293)
    assert locations.where("#loc1") == "/site-packages/triton/language/standard.py:293"
    assert locations.where("unknown") == "an unknown line"
