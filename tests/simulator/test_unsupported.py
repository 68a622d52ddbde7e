from __future__ import annotations

import pytest
import torch

from difftest.engines import default_engine_name, engine_named
from difftest.engines.simulator.program import Program
from difftest.errors import EngineUnavailable, UnknownName, UnknownTarget, Unsupported

TEXT = """
#loc = loc("kernels/made_up.py":3:0)
#loc1 = loc("kernels/made_up.py":7:4)
"builtin.module"() ({
  "tt.func"() <{function_type = (!tt.ptr<f32>) -> (), sym_name = "k", sym_visibility = "public"}> ({
  ^bb0(%x_ptr: !tt.ptr<f32> loc("x_ptr"(#loc))):
    %0 = "arith.constant"() <{value = 2.000000e+00 : f32}> : () -> f32 loc(#loc1)
    OPERATION
    "tt.store"(%x_ptr, %1) <{boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32}> : (!tt.ptr<f32>, f32) -> () loc(#loc1)
    "tt.return"() : () -> () loc(#loc1)
  }) {noinline = false} : () -> () loc(#loc)
}) {generic = true} : () -> () loc(#loc)
"""


def program(operation):
    return Program(TEXT.replace("OPERATION", operation))


def test_a_known_operation_written_as_text_runs():
    x = torch.zeros(1)
    known = program('%1 = "arith.mulf"(%0, %0) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32 loc(#loc1)')
    known.launch((1, 1, 1), [("x_ptr", x)], chunk_elements=64, max_loop_rounds=10)
    assert x.item() == 4.0


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        (
            '%1 = "made.up"(%0) : (f32) -> f32 loc(#loc1)',
            "the simulator does not know the operation made.up, at kernels/made_up.py:7; run this kernel on a GPU",
        ),
        (
            '%1 = "arith.mulf"(%0, %0) <{fastmath = #arith.fastmath<reassoc>}> : (f32, f32) -> f32 loc(#loc1)',
            (
                "the simulator does not know the attribute fastmath = #arith.fastmath<reassoc> of arith.mulf, at kernels/made_up.py:7; "
                "run this kernel on a GPU"
            ),
        ),
        (
            '%1 = "arith.mulf"(%0, %0) <{fastmath = #arith.fastmath<none>, novel = 3 : i32}> : (f32, f32) -> f32 loc(#loc1)',
            "the simulator does not know the attribute novel = 3 : i32 of arith.mulf, at kernels/made_up.py:7; run this kernel on a GPU",
        ),
        (
            '%1 = "arith.cmpf"(%0, %0) <{fastmath = #arith.fastmath<none>, predicate = 0 : i64}> : (f32, f32) -> i1 loc(#loc1)',
            "the simulator does not know arith.cmpf with predicate 0, at kernels/made_up.py:7; run this kernel on a GPU",
        ),
    ],
)
def test_what_is_not_known_is_refused_with_its_line(operation, message):
    with pytest.raises(Unsupported) as caught:
        program(operation)
    assert str(caught.value) == message


def test_an_unknown_type_is_refused():
    with pytest.raises(Unsupported, match=r"does not know the type '!tt.tensordesc<tensor<4xf32>>'"):
        program('%1 = "made.up"(%0) : (f32) -> !tt.tensordesc<tensor<4xf32>> loc(#loc1)')


def test_engines_by_name():
    assert engine_named("simulator").target == "cuda:90"
    assert engine_named("simulator", "hip:gfx942").target == "hip:gfx942"
    with pytest.raises(UnknownName, match="there is no engine 'simulater'; did you mean 'simulator'"):
        engine_named("simulater")
    with pytest.raises(UnknownTarget, match="'cuda-90' is not a target"):
        engine_named("simulator", "cuda-90")


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_a_missing_gpu_is_said_clearly():
    assert default_engine_name() == "simulator"
    with pytest.raises(EngineUnavailable, match=r"the gpu engine needs a GPU, and torch .* sees none .*use the simulator engine"):
        engine_named("gpu")
