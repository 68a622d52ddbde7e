"""What the adapter says of targets, versions and kernels that it cannot serve."""

import contextlib
import types

import pytest
import triton

from difftest import triton_adapter
from difftest.errors import InvalidSpec, UnknownTarget, UnsupportedTriton


def test_the_installed_triton_is_a_tested_one():
    assert triton.__version__.startswith(triton_adapter.TESTED)
    assert triton_adapter.untested_triton() is None


@pytest.mark.parametrize(("version", "word"), [("3.10.0", "newer"), ("4.0.1+git1234", "newer"), ("3.5.1", "older")])
def test_a_triton_that_is_not_tested_is_named(monkeypatch, version, word):
    monkeypatch.setattr(triton, "__version__", version)
    assert triton_adapter.untested_triton() == (
        f"Triton {version} is {word} than tested (Triton 3.6 to 3.9): compile keys may be wrong; run the tests in tests/adapter to find out"
    )


def test_a_development_build_of_a_tested_version_is_tested(monkeypatch):
    monkeypatch.setattr(triton, "__version__", "3.9.1+gitabc")
    assert triton_adapter.untested_triton() is None


def test_a_missing_private_name_is_named(monkeypatch):
    monkeypatch.setattr(triton, "__version__", "3.11.0")
    with pytest.raises(UnsupportedTriton) as raised:
        triton_adapter._private(types.SimpleNamespace(__name__="triton", runtime=types.SimpleNamespace()), "runtime", "jit")
    assert str(raised.value) == (
        "Triton 3.11.0 has no triton.runtime.jit, which difftest needs; tested with Triton 3.6 to 3.9: install one of those"
    )


def test_targets_are_read_and_written():
    hopper, mi300 = triton_adapter.parse_target("cuda:90"), triton_adapter.parse_target("hip:gfx942")
    assert (hopper.backend, hopper.arch, hopper.warp_size) == ("cuda", 90, 32)
    assert (mi300.backend, mi300.arch, mi300.warp_size) == ("hip", "gfx942", 64)
    assert triton_adapter.parse_target("hip:gfx1100").warp_size == 32
    assert [triton_adapter.target_text(target) for target in (hopper, mi300)] == ["cuda:90", "hip:gfx942"]


@pytest.mark.parametrize(
    ("text", "close"),
    [("cuda90", "; did you mean 'cuda:90'?"), ("hip:942", "; did you mean 'hip:gfx942'?"), ("cuda:sm_90", "; did you mean 'cuda:90'?")],
)
def test_an_unknown_target_gets_the_form_and_the_nearest(text, close):
    with pytest.raises(UnknownTarget) as raised:
        triton_adapter.parse_target(text)
    form = "write 'cuda:<compute capability>' or 'hip:<gfx arch>' of a GPU that exists"
    assert str(raised.value) == f"{text!r} is not a target: {form}{close}"


@pytest.mark.parametrize("text", ["hip:gfx9999", "cuda:999", "cuda:0", "cuda:9.0"])
def test_a_gpu_that_does_not_exist_is_no_target(text):
    with pytest.raises(UnknownTarget, match="of a GPU that exists"):
        triton_adapter.parse_target(text)


def test_what_is_no_kernel_is_refused():
    with pytest.raises(InvalidSpec, match=r"is not a triton\.jit function, nor an autotuner or heuristics around one"):
        triton_adapter.jit_function(len)


def test_an_interpreted_kernel_is_refused_with_the_reason():
    interpreted = type("InterpretedFunction", (), {"fn": len})()
    with pytest.raises(InvalidSpec, match="unset TRITON_INTERPRET before triton is imported"):
        triton_adapter.jit_function(interpreted)


def test_the_offline_driver_leaves_no_trace():
    before = triton.runtime.driver._active
    with contextlib.suppress(KeyError), triton_adapter.offline_driver("cuda:80"), triton_adapter.offline_driver("hip:gfx942"):
        assert triton_adapter.target_text(triton_adapter.active_target()) == "hip:gfx942"
        raise KeyError
    assert triton.runtime.driver._active is before
