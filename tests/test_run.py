"""`difftest run`, `replay` and the plugin, as a user of another project meets them."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys

import pytest

from tests.project import difftest, make_project, pytest_in

SIMULATOR = ("--engine", "simulator", "--cases", "12", "--workers", "0")
WRONG_VALUE = [("tl.store(y_ptr + i, x * factor, mask=inside)", "tl.store(y_ptr + i, tl.where(i == 70, 0.0, x * factor), mask=inside)")]


@pytest.fixture(scope="module")
def failing(tmp_path_factory):
    """Return a project with a wrong value at element 70, and the output of the run that found it."""
    directory = make_project(tmp_path_factory.mktemp("failing"), kernel=WRONG_VALUE)
    return directory, difftest(directory, "run", *SIMULATOR, "--policy", "production", "--seed", "5")


def test_a_right_kernel_passes_under_every_policy_and_the_table_names_the_engine(tmp_path):
    run = difftest(make_project(tmp_path), "run", *SIMULATOR, "--seed", "1")
    assert run.returncode == 0, run.stdout + run.stderr
    for policy in ("production", "specialize_all", "none", "integers", "no_alignment"):
        assert re.search(rf"^scale +{policy} +float32 +simulator cuda:90 +\d+ .* passed$", run.stdout, re.MULTILINE), run.stdout
    assert "classes reached, scale:" in run.stdout


def test_a_wrong_value_is_found_shrunk_and_written(failing):
    directory, run = failing
    assert run.returncode == 1
    assert "disagreement: scale[production-float32] on simulator (cuda:90)" in run.stdout
    assert "--difftest-seed=5 replays it alone: difftest run scale --policy production --dtype float32 --seed 5" in run.stdout
    (path,) = (directory / ".difftest" / "failures").glob("*.json")
    written = json.loads(path.read_text())
    assert written["finding"] == "disagreement"
    assert written["case"]["n"] == 71, "the smallest launch that shows element 70"


def test_a_failing_case_replays_from_its_file_and_passes_once_the_kernel_is_mended(failing):
    directory, _ = failing
    (path,) = (directory / ".difftest" / "failures").glob("*.json")
    again = difftest(directory, "replay", str(path))
    assert again.returncode == 1
    assert "still fails: disagreement" in again.stdout
    mended = make_project(directory)
    assert difftest(mended, "replay", str(path)).returncode == 0


def test_the_printed_seed_gives_the_same_shrunk_case_again(tmp_path):
    directory = make_project(tmp_path, kernel=WRONG_VALUE)
    cases = set()
    for _ in range(2):
        difftest(directory, "run", *SIMULATOR, "--policy", "none", "--seed", "11")
        cases.add(next((directory / ".difftest" / "failures").glob("*none*.json")).read_text())
    assert len(cases) == 1


@pytest.mark.parametrize(
    ("edit", "kind"),
    [
        ([("tl.load(x_ptr + i, mask=inside, other=0.0)", "tl.load(x_ptr + i)")], "out of bounds"),
        ([("x * factor, mask=inside)", "x * factor)")], "out of bounds"),
        ([("tl.store(y_ptr + i, x * factor, mask=inside)", "tl.store(y_ptr + i, x * factor, mask=inside & (i != 3))")], "unwritten output"),
        ([("tl.store(y_ptr", "tl.store(x_ptr")], "changed input"),
        ([('@triton.jit(do_not_specialize=["n"])', "@triton.jit")], "contract breach"),
        ([("    y = torch.empty_like(x)", "    y = torch.empty_like(x.double())")], "shape or dtype mismatch"),
        ([("    y = torch.empty_like(x)", '    raise RuntimeError("no room")')], "launch failure"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_broken_kernel_is_found_by_its_kind(tmp_path, edit, kind):
    run = difftest(make_project(tmp_path, kernel=edit), "run", *SIMULATOR, "--policy", "production", "--seed", "3")
    assert run.returncode == 1, run.stdout + run.stderr
    assert f"{kind}: scale[production-float32]" in run.stdout


def test_a_kernel_that_fails_to_compile_for_one_class_names_the_class_and_the_policy(tmp_path):
    edit = [("inside = i < n", "inside = i < n.to(tl.int64)")]
    directory = make_project(tmp_path, kernel=edit)
    many = ("--engine", "simulator", "--cases", "100", "--workers", "0")
    run = difftest(directory, "run", *many, "--policy", "specialize_all", "--seed", "3")
    assert "compile failure: scale[specialize_all-float32]" in run.stdout
    assert re.search(r"does not compile for scale_kernel: .*`?n`? ?[=:(].*\b1\b", run.stdout), run.stdout


@pytest.mark.parametrize(
    ("edit", "text"),
    [
        ([("return (x * factor,)", "return (x * factor, x)")], "torch_reference returned 2 outputs, expected 1: y"),
        ([("return (np.multiply(x, factor),)", "return (np.multiply(x, factor)[None],)")], "scipy_reference gives 'y' the shape"),
        (
            [("return (np.multiply(x, factor),)", "return (np.multiply(x, factor).astype('f4'),)")],
            "scipy_reference returned torch.float32 for 'y', expected",
        ),
        ([("return (np.multiply(x, factor),)", "return (x.no_such,)")], "scipy_reference raised AttributeError"),
        ([('outputs=("y",),', 'outputs=("y",), in_place=("z",),')], "in_place names 'z', which is not a parameter of scale"),
        ([('outputs=("y",),', 'outputs="y",')], "outputs='y' is not a tuple; write ('y',)"),
        ([("error_ratio(c=2.0, floor=1.0)", "0.01")], "tolerance=0.01 is not a tolerance; write exact, ulp(n) or error_ratio"),
        ([("def cases(dtype):", "def cases():")], "cases('float32') raised TypeError"),
        ([("return st.builds(\n        Case,", "return st.builds(\n        dict,")], "expected a Case with the fields 'dtype' and 'seed'"),
        ([('do_not_specialize=("n",), vary={"n": lengths}', 'do_not_specialize=("m",)')], "'m' is not a parameter of scale_kernel"),
        ([("import Case, Contract", "import Cases, Contract")], "importing it raised AttributeError|importing it raised ImportError"),
    ],
)
def test_a_spec_at_fault_is_exit_code_2_with_what_to_mend(tmp_path, edit, text):
    run = difftest(make_project(tmp_path, reference=edit), "run", *SIMULATOR, "--policy", "production", "--seed", "3")
    assert run.returncode == 2, run.stdout + run.stderr
    assert re.search(text, run.stdout + run.stderr) or text in run.stdout + run.stderr
    assert "Traceback" not in run.stdout + run.stderr


def test_references_that_disagree_judge_nothing(tmp_path):
    edit = [("return (np.multiply(x, factor),)", "return (np.multiply(x, factor) * (1 + 1e-12),)")]
    run = difftest(make_project(tmp_path, reference=edit), "run", *SIMULATOR, "--policy", "production", "--seed", "3")
    assert run.returncode == 1
    assert "references disagree" in run.stdout


def test_a_tolerance_that_accepts_zeros_is_mistrusted(tmp_path):
    edit = [("error_ratio(c=2.0, floor=1.0)", "error_ratio(c=2.0, floor=1e12)")]
    run = difftest(make_project(tmp_path, reference=edit), "run", *SIMULATOR, "--policy", "production", "--seed", "3")
    assert run.returncode == 1
    assert "mistrusted" in run.stdout
    assert "zeros" in run.stdout


def test_a_strategy_that_draws_only_empty_launches_compared_nothing(tmp_path):
    edit = [("n=extents(tile=64, max_value=300)", "n=st.just(0)"), ("n=64, factor", "n=0, factor"), (', vary={"n": lengths}', "")]
    run = difftest(make_project(tmp_path, reference=edit), "run", *SIMULATOR, "--policy", "production", "--seed", "3")
    assert run.returncode == 1
    assert "nothing compared" in run.stdout


def test_a_strategy_that_draws_nothing_is_named(tmp_path):
    edit = [("n=extents(tile=64, max_value=300)", "n=st.nothing()")]
    run = difftest(make_project(tmp_path, reference=edit), "run", *SIMULATOR, "--policy", "none", "--seed", "3")
    assert run.returncode == 1
    assert "drew nothing" in run.stdout


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("run", "scael", *SIMULATOR), "no kernel 'scael' among the collected kernels; did you mean 'scale'?"),
        (("run", "--policy", "prodction", *SIMULATOR), "no policy 'prodction' among the collected kernels; did you mean 'production'?"),
        (("run", "--dtype", "float23", *SIMULATOR), "did you mean 'float32'?"),
        (("run", "--engine", "simulater", "--workers", "0"), "did you mean 'simulator'?"),
        (("run", "--engine", "simulator", "--target", "cuda:banana", "--workers", "0"), "'cuda:banana' is not a target"),
        (("run", "--engine", "simulator", "--target", "hip:gfx9999", "--workers", "0"), "of a GPU that exists; did you mean"),
        (("run", "--engine", "simulator", "--profile", "devv", "--workers", "0"), "no profile 'devv'; did you mean 'dev'?"),
        (("replay", "absent.json"), "absent.json: No such file or directory; pass the path that the failing run printed"),
    ],
)
def test_a_wrong_name_is_exit_code_2_with_a_suggestion(tmp_path, arguments, text):
    run = difftest(make_project(tmp_path), *arguments)
    assert run.returncode == 2, run.stdout + run.stderr
    assert text in run.stdout + run.stderr
    assert "Traceback" not in run.stdout + run.stderr


def test_a_directory_without_a_project_is_named(tmp_path):
    run = difftest(tmp_path, "run")
    assert run.returncode == 2
    assert "no directory 'reference' here" in run.stderr


def test_a_missing_gpu_is_exit_code_2(tmp_path):
    run = difftest(make_project(tmp_path), "run", "--engine", "gpu", "--workers", "0", CUDA_VISIBLE_DEVICES="")
    assert run.returncode == 2
    assert "GPU" in run.stdout + run.stderr


def test_require_gpu_fails_where_a_gpu_test_would_be_skipped(tmp_path):
    directory = make_project(tmp_path)
    (directory / "test_gpu.py").write_text("import pytest\n\n@pytest.mark.gpu\ndef test_it():\n    pass\n")
    skipped = pytest_in(directory, "-q", "-rs", "test_gpu.py", CUDA_VISIBLE_DEVICES="")
    assert skipped.returncode == 0
    assert "needs a GPU, and torch sees none" in skipped.stdout
    assert pytest_in(directory, "-q", "--require-gpu", "test_gpu.py", CUDA_VISIBLE_DEVICES="").returncode == 1


def test_a_reference_file_named_on_the_command_line_is_collected_once(tmp_path):
    run = pytest_in(make_project(tmp_path), "--collect-only", "-q", "reference/scale.py")
    assert run.stdout.count("scale[production-float32]") == 1


def test_workers_share_the_session_seed_and_report_their_verdicts(tmp_path):
    run = difftest(make_project(tmp_path), "run", "--engine", "simulator", "--cases", "8", "--workers", "2", "--seed", "9")
    assert run.returncode == 0, run.stdout + run.stderr
    assert "5 cells on simulator (cuda:90): 5 passed" in run.stdout


def test_ctrl_c_leaves_a_summary_of_what_was_done(tmp_path):
    directory = make_project(tmp_path, reference=[("return (x * factor,)", "import time; time.sleep(0.05); return (x * factor,)")])
    command = [sys.executable, "-c", _INTERRUPTED, *SIMULATOR[:2], "--cases", "40", "--workers", "0"]
    process = subprocess.Popen(command, cwd=directory, stdout=subprocess.PIPE, text=True)
    seen = []
    for line in process.stdout:
        seen.append(line)
        if line.startswith("."):
            break
    process.send_signal(signal.SIGINT)
    text = "".join(seen) + process.communicate(timeout=120)[0]
    assert process.returncode == 2, text
    assert re.search(r"^scale .* passed$", text, re.MULTILINE), text


_INTERRUPTED = f"""
import sys
sys.path.insert(0, {str(make_project.__globals__["ROOT"])!r})
sys.path.insert(0, "")
from difftest import cli
sys.argv = ["difftest", "run", *sys.argv[1:]]
class Dots:
    def pytest_runtest_logreport(self, report):
        if report.when == "call":
            print(".", flush=True)
import pytest
original = pytest.main
pytest.main = lambda arguments: original(arguments, plugins=[Dots()])
cli.main()
"""


def test_the_seed_line_carries_the_options_that_the_case_depends_on(failing):
    directory, _ = failing
    make_project(directory, kernel=WRONG_VALUE)
    run = difftest(directory, "run", *SIMULATOR, "--target", "hip:gfx942", "--policy", "none", "--seed", "5")
    assert "--policy none --dtype float32 --seed 5 --engine simulator --target hip:gfx942 --cases 12" in run.stdout
    assert list((directory / ".difftest" / "failures").glob("scale-none-float32-simulator-hipgfx942.json"))


def test_an_operation_that_the_simulator_does_not_know_is_unsupported_and_no_pass(tmp_path):
    assembly = "inside = tl.inline_asm_elementwise('mov.b32 $0, $1;', '=r,r', [i], dtype=tl.int32, is_pure=True, pack=1) < n"
    run = difftest(make_project(tmp_path, kernel=[("inside = i < n", assembly)]), "run", *SIMULATOR, "--policy", "none")
    assert run.returncode == 1, run.stdout + run.stderr
    assert re.search(r"unsupported, scale: .*elementwise_inline_asm.*scale\.py", run.stdout), run.stdout


def test_a_typo_beside_workers_is_named_once(tmp_path):
    run = difftest(make_project(tmp_path), "run", "scael", "--engine", "simulator", "--workers", "2")
    assert run.returncode == 2, run.stdout + run.stderr
    assert "no kernel 'scael' among the collected kernels; did you mean 'scale'?" in run.stdout
    assert "INTERNALERROR" not in run.stdout


def test_every_set_of_integer_arguments_is_a_policy_on_request(tmp_path):
    run = difftest(make_project(tmp_path), "run", *SIMULATOR, "--policy", "powerset")
    assert run.returncode == 0, run.stdout + run.stderr
    assert re.findall(r"powerset:\S+", run.stdout)[:2] == ["powerset:empty", "powerset:n"]


def test_the_registered_kernels_are_listed(tmp_path):
    run = difftest(make_project(tmp_path), "list")
    assert run.stdout.startswith("scale\n  dtypes: float32\n  policies: production, specialize_all, none, integers, no_alignment")


TRACKED = """
from hypothesis import given, settings, strategies as st
import torch
from kernels.scale import scale, scale_kernel

def test_one_key(recompile_tracker):
    with recompile_tracker(scale_kernel, allow=1, fresh=True) as log:
        for n in (1, 17, 32):
            scale(torch.ones(n), 2.0)
    assert len(log.keys) == 1

@settings(database=None, deadline=None, max_examples=20)
@given(n=st.integers(1, 100))
def test_one_key_in_a_property(recompile_tracker, n):
    with recompile_tracker(scale_kernel, allow=1, fresh=True):
        scale(torch.ones(3), 2.0)
        scale(torch.ones(n), 2.0)
"""


def test_the_tracker_fixture_works_without_a_gpu_and_in_properties(tmp_path):
    directory = make_project(tmp_path)
    (directory / "test_tracked.py").write_text(TRACKED)
    right = pytest_in(directory, "-q", "test_tracked.py", "--difftest-engine=simulator")
    assert right.returncode == 0, right.stdout
    make_project(directory, kernel=[('@triton.jit(do_not_specialize=["n"])', "@triton.jit")])
    wrong = pytest_in(directory, "-q", "test_tracked.py", "--difftest-engine=simulator")
    assert wrong.returncode == 1
    assert re.search(r"`n`: 1 \(equal to 1\) -> 17 \(other\) at \S*scale\.py:\d+", wrong.stdout), wrong.stdout
    assert "Flaky" not in wrong.stdout
    assert re.search(r"`n`: 3 \(other\) -> (1 \(equal to 1\)|16 \(multiple of 16\))", wrong.stdout)
