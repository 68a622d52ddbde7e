"""The simulator computes what an H200 computed, for every operation in the corpus."""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import triton

from corpus.agreement import Bits, Positions, is_nan
from corpus.entry import all_entries, bits_of, fingerprint, launch, placed_arguments
from difftest import triton_adapter
from difftest.engines import engine_named
from difftest.engines.simulator.engine import SimulatorEngine
from difftest.errors import LaunchFailure, Unsupported

FOLDER = Path(__file__).parent
COMMAND = "on a machine with an H200 run `python tests/corpus/record.py tests/corpus` from the repository's root"

# What the simulator refuses. An entry that starts to work must leave this table, and one that stops working must not enter it unseen.
FP8 = "elements of fp8"
UNSUPPORTED = {
    "cast_to_fp8_float32": FP8,
    "cast_from_float8_e4m3fn": FP8,
    "cast_from_float8_e5m2": FP8,
    "load_masked_float8_e5m2": FP8,
    "truncate_float32_float16": "tt.fp_to_fp that rounds toward zero",
    "truncate_float32_bfloat16": "tt.fp_to_fp that rounds toward zero",
    "tanh_float32": "tt.extern_elementwise",
    "isnan_float32": "tt.extern_elementwise",
    "rint_float32": "tt.extern_elementwise",
    "pointer_table": "tt.int_to_ptr",
    "pointer_arithmetic": "tt.ptr_to_int",
    "inline_assembly": "tt.elementwise_inline_asm",
    "map_elementwise": "tt.map_elementwise",
    "histogram_int32": "tt.histogram",
    "histogram_out_of_range_int32": "tt.histogram",
    "descriptor": "tt.tensordesc",
    "multiply_sum_float32": "tt.dot",  # Triton turns the sum of a broadcast product into a dot
    **{name: "tt.dot" for name in all_entries() if name.startswith(("dot_", "matmul_"))},
}
# A spin lock ends only where other programs make progress, so not in lock step.
ONE_PROGRAM_AT_A_TIME = {"atomic_lock"}

TAKEN = [name for name, entry in all_entries().items() if entry.compiles_on(triton.__version__)]
COMPARED = [name for name in TAKEN if name not in UNSUPPORTED]


@functools.cache
def recording() -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the recorded statuses by entry and the outputs' bits by `entry.index`."""
    missing = [file for file in ("h200.json", "h200.npz") if not (FOLDER / file).exists()]
    assert not missing, f"no recorded outputs ({', '.join(missing)} absent from tests/corpus): {COMMAND}"
    with np.load(FOLDER / "h200.npz") as arrays:
        return json.loads((FOLDER / "h200.json").read_text())["entries"], dict(arrays)


def simulated(name: str) -> tuple[Any, ...]:
    engine = SimulatorEngine(chunk_elements=1) if name in ONE_PROGRAM_AT_A_TIME else engine_named("simulator")
    with engine.activate():
        return launch(all_entries()[name], "cpu")


def differences(name: str, outputs: tuple[Any, ...]) -> list[str]:
    """Return one line per output that differs from the recorded one by more than the entry's policy allows."""
    statuses, arrays = recording()
    entry, dtypes = all_entries()[name], statuses[name]["dtypes"]
    assert len(outputs) == len(dtypes) > 0
    found = []
    for index, (output, dtype) in enumerate(zip(outputs, dtypes, strict=True)):
        assert str(output.dtype) == f"torch.{dtype}"
        policy = entry.policy_of(index)
        difference = policy.differences(bits_of(output), arrays[f"{name}.{index}"], dtype)
        found += [f"output {index} ({policy}): {difference}"] if difference else []
    return found


def test_every_entry_is_recorded_and_every_recording_is_of_an_entry():
    statuses, arrays = recording()
    assert {name: status["status"] for name, status in statuses.items()} == dict.fromkeys(all_entries(), "ok"), COMMAND
    assert {key.rsplit(".", 1)[0] for key in arrays} == set(all_entries()), COMMAND


def test_the_recording_is_of_the_kernels_and_inputs_as_they_are_now():
    statuses, _ = recording()
    stale = [name for name, entry in all_entries().items() if statuses[name]["fingerprint"] != fingerprint(entry)]
    assert stale == [], f"kernels or inputs changed since the recording; {COMMAND}"


@pytest.mark.filterwarnings("ignore:tl.make_block_ptr is deprecated:UserWarning")
@pytest.mark.parametrize("name", COMPARED)
def test_the_simulator_agrees_with_the_gpu(name):
    found = differences(name, simulated(name))
    assert not found, f"{name}:\n" + "\n".join(found)


@pytest.mark.parametrize("name", [name for name in TAKEN if name in UNSUPPORTED])
def test_what_the_simulator_does_not_know_stops_by_name(name):
    with pytest.raises(Unsupported) as refusal:
        simulated(name)
    words = UNSUPPORTED[name].removeprefix("elements of ").replace("fp8", "f8")
    assert words.lower() in str(refusal.value).lower()


def test_the_tables_of_exceptions_name_entries():
    assert set(UNSUPPORTED) | ONE_PROGRAM_AT_A_TIME <= set(all_entries())


def test_a_spin_lock_in_lock_step_is_stopped_and_named():
    engine = SimulatorEngine()
    engine.max_loop_rounds = 100
    with engine.activate(), pytest.raises(LaunchFailure, match=r"a loop still ran after 100 rounds.*atomic_cas"):
        launch(all_entries()["atomic_lock"], "cpu")


REORDERED = [(n, i, p) for n, entry in all_entries().items() for i, p in entry.policies.items() if isinstance(p, Positions)]


@pytest.mark.parametrize(("name", "index", "policy"), REORDERED, ids=[name for name, *_ in REORDERED])
def test_a_recorded_index_is_that_of_the_first_minimum_in_the_order_of_the_layout(name, index, policy):
    _, arrays = recording()
    rows = all_entries()[name].arguments()[0].reshape(-1, len(policy.order)).double().numpy()[:, policy.order]
    assert sorted(policy.order) == list(range(len(policy.order)))
    assert arrays[f"{name}.{index}"].tolist() == rows.argmin(1).tolist()


def test_where_indices_may_be_reordered_the_operation_says_so():
    for name in {REORDERED[0][0], REORDERED[-1][0]}:
        entry = all_entries()[name]
        with triton_adapter.offline_driver(triton_adapter.parse_target("cuda:90")):
            compiled = entry.kernel.warmup(*placed_arguments(entry, "cpu")[0], grid=entry.grid, **entry.constexprs, **entry.options)
        assert "allow_reorder" in compiled.asm["ttir"]


# One entry for each operation: to compile all of them would take a minute.
CLAIMED = {operation: name for name in TAKEN for operation in all_entries()[name].covers}


@pytest.mark.filterwarnings("ignore:tl.make_block_ptr is deprecated:UserWarning")
@pytest.mark.parametrize("operation", CLAIMED)
def test_an_entry_contains_the_operation_that_it_names(operation):
    entry = all_entries()[CLAIMED[operation]]
    arguments, _ = placed_arguments(entry, "cpu")
    with triton_adapter.offline_driver(triton_adapter.parse_target("cuda:90")):
        compiled = entry.kernel.warmup(*arguments, grid=entry.grid, **entry.constexprs, **entry.options)
    assert operation in re.findall(r"[a-z]+\.[a-z_0-9.]+", compiled.asm["ttir"])


def test_most_of_the_corpus_is_compared():
    _, arrays = recording()
    elements = sum(array.size for key, array in arrays.items() if key.rsplit(".", 1)[0] in COMPARED)
    assert len(COMPARED) >= 500
    assert elements >= 200_000


def test_what_was_recorded_was_written_by_the_kernels():
    _, arrays = recording()
    untouched = [key for key, array in arrays.items() if (np.ascontiguousarray(array).view(np.uint8) == 0x55).all()]
    assert untouched == []


@pytest.mark.parametrize("name", COMPARED)
def test_a_recording_that_differs_in_one_element_is_rejected(name):
    statuses, arrays = recording()
    index = len(statuses[name]["dtypes"]) - 1
    policy = all_entries()[name].policy_of(index)
    recorded, dtype = arrays[f"{name}.{index}"], statuses[name]["dtypes"][index]
    changed = recorded.copy()
    # For integers and exact policies the lowest bit; a policy in ulps must reject a change of the sign or of the exponent's lowest bit.
    lowest = isinstance(policy, Bits) or "float" not in dtype
    place = int(np.argmin(is_nan(recorded, dtype)))  # the first element that is not NaN: those are one class
    changed.flat[place] ^= changed.dtype.type(1) if lowest else changed.dtype.type(0b11 << (changed.dtype.itemsize * 8 - 3))
    assert policy.differences(changed, recorded, dtype).startswith("1 of ")
    assert not policy.differences(recorded, recorded, dtype)
