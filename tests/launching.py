"""Launches without a GPU for the tests: Triton's own launch path, with a compiled kernel that does nothing."""

import contextlib

import torch
import triton
import triton.language as tl

from difftest import triton_adapter


@triton.jit(do_not_specialize=["H", "W"])
def sized_kernel(x_ptr, H, W, n, scale, flag, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK), H * W + n * scale, mask=tl.arange(0, BLOCK) < n)


@triton.jit
def plain_kernel(x_ptr, n, stride, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK) * stride, n)


CONFIGS = [triton.Config({"BLOCK": 16}, num_warps=1), triton.Config({"BLOCK": 32}, num_warps=2)]
tuned_kernel = triton.autotune(CONFIGS, key=["n"])(plain_kernel)
heuristic_kernel = triton.heuristics({"BLOCK": lambda _arguments: 16})(plain_kernel)


class NoOperation:
    """A compiled kernel that does nothing."""

    function = packed_metadata = None

    def launch_metadata(self, *_launch):
        return None

    def run(self, *_launch):
        return None


@contextlib.contextmanager
def launching(*kernels, target="cuda:90"):
    """Yield a tensor that the kernels, with empty caches, can be launched on."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(triton_adapter.offline_driver(target))
        stack.enter_context(triton_adapter.intercept_compiles(lambda *_source: NoOperation()))
        for kernel in kernels or (sized_kernel, plain_kernel):
            stack.enter_context(triton_adapter.fresh_caches(triton_adapter.jit_function(kernel)))
        tuned_kernel.cache.clear()
        yield torch.zeros(64)
