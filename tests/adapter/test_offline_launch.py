"""An unmodified launch runs on a machine without a GPU: Triton's own `run` with a kernel object that the engine makes."""

import pytest
import torch
import triton
import triton.language as tl

from difftest import triton_adapter
from difftest.errors import CompileFailure


@triton.jit(do_not_specialize=["n"])
def scale_kernel(x_ptr, n, factor, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(x_ptr + offsets, tl.load(x_ptr + offsets, mask=mask) * factor, mask=mask)


CONFIGS = [triton.Config({"BLOCK": 64}, num_warps=2), triton.Config({"BLOCK": 128}, num_warps=4)]
tuned_kernel = triton.autotune(CONFIGS, key=["n"])(scale_kernel)
heuristic_kernel = triton.heuristics({"BLOCK": lambda arguments: 32 if arguments["n"] < 100 else 256})(scale_kernel)


class MultiplyingKernel:
    """What an engine gives Triton: it does in torch what `scale_kernel` does."""

    function = None
    packed_metadata = None

    def __init__(self, jit, options):
        self.names = [parameter.name for parameter in triton_adapter.parameters(jit)]
        self.options = options
        self.launches = []

    def launch_metadata(self, *_launch):
        return None

    def run(self, gx, gy, gz, *launch):
        _stream, _function, _metadata, _launch_metadata, _enter_hook, _exit_hook, *arguments = launch
        bound = dict(zip(self.names, arguments, strict=True))
        self.launches.append(((gx, gy, gz), bound["BLOCK"]))
        bound["x_ptr"][: bound["n"]] *= bound["factor"]


@pytest.fixture
def made():
    """Kernel objects made inside, in order."""
    kernels = []

    def compile_kernel(src, jit, target, options):
        kernels.append(MultiplyingKernel(jit, options))
        return kernels[-1]

    with triton_adapter.offline_driver("cuda:90"), triton_adapter.intercept_compiles(compile_kernel):
        yield kernels


def test_an_unmodified_launch_on_cpu_tensors_runs_the_kernel_object(made):
    x = torch.ones(100)
    scale_kernel[(2,)](x, 90, 3.0, BLOCK=64, num_warps=2)
    assert x[:90].eq(3).all()
    assert x[90:].eq(1).all()
    assert made[0].launches == [((2, 1, 1), 64)]
    assert made[0].options["num_warps"] == 2


def test_a_second_launch_of_the_same_key_finds_the_kernel_in_tritons_cache(made):
    for n in (17, 32, 1):
        scale_kernel[(1,)](torch.ones(64), n, 3.0, BLOCK=64)
    assert len(made) == 1
    assert len(made[0].launches) == 3


def test_a_callable_grid_is_called_by_triton(made):
    scale_kernel[lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),)](torch.ones(100), 100, 3.0, BLOCK=32)
    assert made[0].launches == [((4, 1, 1), 32)]


def test_autotune_with_two_configs_tries_each_and_keeps_the_first(made):
    tuned_kernel.cache.clear()
    x = torch.ones(100)
    tuned_kernel[(2,)](x, 100, 2.0)
    assert [kernel.options["num_warps"] for kernel in made] == [2, 4]
    assert [len(kernel.launches) for kernel in made] == [2, 1]
    assert x.eq(8).all()
    assert tuned_kernel.best_config.kwargs == {"BLOCK": 64}


def test_autotune_measures_again_after_the_offline_driver_is_gone():
    real = triton.runtime.autotuner.Autotuner.__dict__["do_bench"]
    with triton_adapter.offline_driver("cuda:90"):
        assert triton.runtime.autotuner.Autotuner.__dict__["do_bench"] is not real
    assert triton.runtime.autotuner.Autotuner.__dict__["do_bench"] is real
    assert "do_bench" not in vars(tuned_kernel)


def test_heuristics_choose_the_constexpr(made):
    heuristic_kernel[(4,)](torch.ones(99), 99, 2.0)
    heuristic_kernel[(1,)](torch.ones(200), 200, 2.0)
    assert [kernel.launches for kernel in made] == [[((4, 1, 1), 32)], [((1, 1, 1), 256)]]


def test_another_interceptor_does_not_find_the_first_ones_kernels(made):
    scale_kernel[(1,)](torch.ones(64), 64, 3.0, BLOCK=64)
    inner = []

    def another(src, jit, target, options):
        inner.append(MultiplyingKernel(jit, options))
        return inner[-1]

    with triton_adapter.intercept_compiles(another):
        scale_kernel[(1,)](torch.ones(64), 64, 3.0, BLOCK=64)
    scale_kernel[(1,)](torch.ones(64), 64, 3.0, BLOCK=64)
    assert [len(kernel.launches) for kernel in made + inner] == [2, 1]


def test_an_error_of_the_interceptor_reaches_the_launcher_and_nothing_stays_cached():
    def failing(src, jit, target, options):
        raise CompileFailure("no such operation")

    with triton_adapter.offline_driver("cuda:90"), triton_adapter.intercept_compiles(failing):
        for _ in range(2):
            with pytest.raises(CompileFailure, match="no such operation"):
                scale_kernel[(1,)](torch.ones(64), 64, 3.0, BLOCK=64)


def test_the_hooks_of_triton_fire_for_intercepted_compiles(made):
    seen = []
    before = triton_adapter.get_hook("jit_post_compile_hook")
    triton_adapter.set_hook("jit_post_compile_hook", lambda **event: seen.append(event["key"]))
    try:
        scale_kernel[(1,)](torch.ones(64), 64, 3.0, BLOCK=16)
        scale_kernel[(1,)](torch.ones(64), 63, 3.0, BLOCK=16)
    finally:
        triton_adapter.set_hook("jit_post_compile_hook", before)
    x = torch.ones(64)
    assert seen == [triton_adapter.bind(scale_kernel, (x, 64, 3.0), {"BLOCK": 16}).key]


def test_after_the_block_compiles_are_tritons_again():
    real = triton.runtime.jit.JITFunction.__dict__["_do_compile"]
    with triton_adapter.offline_driver("cuda:90"):
        with triton_adapter.intercept_compiles(lambda *_: None):
            assert triton.runtime.jit.JITFunction.__dict__["_do_compile"] is not real
        assert triton.runtime.jit.JITFunction.__dict__["_do_compile"] is real
        compiled = scale_kernel.warmup(torch.float32, 64, 3.0, BLOCK=64, grid=(1,))
    assert "tt.func" in compiled.asm["ttir"]


def test_ttir_is_in_generic_form_with_the_lines_of_the_kernel():
    texts = []

    def keep(src, jit, target, options):
        texts.append(triton_adapter.ttir(src, target, options))
        return MultiplyingKernel(jit, options)

    with triton_adapter.offline_driver("cuda:90"), triton_adapter.intercept_compiles(keep):
        scale_kernel[(1,)](torch.ones(64), 64, 3.0, BLOCK=64)
    assert '"tt.func"(' in texts[0]
    assert '"tt.store"(' in texts[0]
    assert "test_offline_launch.py" in texts[0]


def test_the_launch_is_seen_with_its_line_and_may_be_changed(made):
    seen = []

    def around(launch, proceed):
        seen.append(launch)
        return proceed((launch.args[0], 32, *launch.args[2:]), launch.kwargs)

    x = torch.ones(64)
    with triton_adapter.intercept_launches(around):
        scale_kernel[(1,)](x, 64, 3.0, BLOCK=64)
        scale_kernel.warmup(torch.float32, 64, 3.0, BLOCK=64, grid=(1,))
    assert [(launch.jit, launch.grid, launch.args[1:]) for launch in seen] == [(scale_kernel, (1,), (64, 3.0))]
    assert seen[0].site.rpartition(":")[0] == __file__
    assert x.sum() == 32 * 3 + 32


def test_the_launch_line_under_autotune_is_the_users(made):
    seen = []
    tuned_kernel.cache.clear()
    with triton_adapter.intercept_launches(lambda launch, proceed: seen.append(launch.site) or proceed(launch.args, launch.kwargs)):
        tuned_kernel[(1,)](torch.ones(64), 64, 3.0)
    assert len(seen) == 3
    assert len(set(seen)) == 1
    assert seen[0].startswith(f"{__file__}:")


def test_interceptors_of_launches_nest_and_are_undone_when_one_raises(made):
    order = []
    real = triton.runtime.jit.JITFunction.run

    def note(name):
        return lambda launch, proceed: order.append(name) or proceed(launch.args, launch.kwargs)

    with triton_adapter.intercept_launches(note("outer")), triton_adapter.intercept_launches(note("inner")):
        scale_kernel[(1,)](torch.ones(64), 64, 3.0, BLOCK=64)
    assert order == ["inner", "outer"]

    def refusing(launch, proceed):
        raise CompileFailure("refused")

    with pytest.raises(CompileFailure, match="refused"), triton_adapter.intercept_launches(refusing):
        scale_kernel[(1,)](torch.ones(64), 64, 3.0, BLOCK=64)
    assert triton.runtime.jit.JITFunction.run is real
