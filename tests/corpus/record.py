"""Record what a GPU computes for every entry of the corpus: `python tests/corpus/record.py OUT_DIR`, from the repository's root.

Writes OUT_DIR/h200.npz (the outputs' bits) and OUT_DIR/h200.json (the machine, and the status of each entry). Needs torch and triton only.
`--compile-only` compiles every entry for a target without a GPU and records nothing: `python tests/corpus/record.py --compile-only`.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import platform
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import triton
from triton.backends.compiler import GPUTarget

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from corpus.entry import Entry, all_entries, bits_of, fingerprint, launch, placed_arguments

MESSAGE_CHARACTERS = 2000


class OfflineDriver:
    """What Triton asks of a driver in order to compile without a GPU."""

    def __init__(self, capability: int) -> None:
        self.target = GPUTarget("cuda", capability, 32)

    def get_current_target(self) -> Any:
        return self.target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return device

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cpu")


def compile_entry(entry: Entry) -> None:
    """Compile one entry for the active driver's target, down to the binary."""
    arguments, _ = placed_arguments(entry, "cpu")
    entry.kernel.warmup(*arguments, grid=entry.grid, **entry.constexprs, **entry.options)


def record_entry(entry: Entry, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """Launch one entry, put its outputs' bits in `arrays` under `name.index`, and return what the JSON says of it."""
    outputs = launch(entry, "cuda")
    torch.cuda.synchronize()
    for index, output in enumerate(outputs):
        arrays[f"{entry.name}.{index}"] = bits_of(output)
    dtypes = [str(output.dtype).removeprefix("torch.") for output in outputs]
    return {"status": "ok", "dtypes": dtypes, "fingerprint": fingerprint(entry)}


def attempt(entry: Entry, arrays: dict[str, np.ndarray] | None) -> dict[str, Any]:
    """Return the status of one entry: what it gave, or the error's text; `arrays` None means compile only."""
    if not entry.compiles_on(triton.__version__):
        return {"status": f"not taken by the front end since Triton {entry.removed_in}"}
    try:
        if arrays is not None:
            return record_entry(entry, arrays)
        compile_entry(entry)
    except Exception as error:  # noqa: BLE001 - an entry that fails must not stop the others
        return {"status": "error", "error": _text(error)}
    return {"status": "ok"}


def _text(error: BaseException | None) -> str:
    """Return the error and its causes, the innermost last; of a long text only both ends."""
    text = ""
    while error is not None:
        text += f"{type(error).__name__}: {error}\n"
        error = error.__cause__
    return text if len(text) <= 2 * MESSAGE_CHARACTERS else text[:MESSAGE_CHARACTERS] + "\n...\n" + text[-MESSAGE_CHARACTERS:]


def machine() -> dict[str, str]:
    """Return the facts of this machine that the outputs may depend on."""
    return {
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else "none",
        "capability": str(torch.cuda.get_device_capability()) if torch.cuda.is_available() else "none",
        "torch": torch.__version__,
        "triton": triton.__version__,
        "python": platform.python_version(),
        "machine": platform.platform(),
        "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
    }


def write(folder: Path, arrays: dict[str, np.ndarray], statuses: dict[str, Any]) -> None:
    """Write both files; called again after the risky entries, so that a crash in one of them loses only those."""
    folder.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(folder / "h200.npz", **arrays)
    text = json.dumps({"machine": machine(), "entries": statuses}, indent=1)
    (folder / "h200.json").write_text(text + "\n")


def say(line: str) -> None:
    """Write one line at once: what was done is known when a later entry hangs."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def run(entries: dict[str, Entry], folder: Path | None) -> dict[str, Any]:
    """Attempt every entry and return the statuses by name; `folder` None means compile only."""
    arrays: dict[str, np.ndarray] | None = None if folder is None else {}
    statuses: dict[str, Any] = {}
    for name, entry in entries.items():
        if entry.risky and folder is not None:
            write(folder, arrays or {}, statuses)
        statuses[name] = attempt(entry, arrays)
        if statuses[name]["status"] == "error":
            say(f"{name}: {statuses[name]['error']}")
    if folder is not None:
        write(folder, arrays or {}, statuses)
    return statuses


def use_allocator() -> None:
    """Give kernels that make tensor descriptors the scratch memory that they ask Triton for."""
    triton.set_allocator(lambda size, _alignment, _stream: torch.empty(size, dtype=torch.int8, device="cuda"))


def main() -> int:
    """Return 0 when every entry that this Triton takes went well, else 1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, help="where h200.npz and h200.json go")
    parser.add_argument("--compile-only", action="store_true", help="compile for --capability without a GPU")
    parser.add_argument("--capability", type=int, default=90, help="CUDA compute capability to compile for (default 90)")
    parser.add_argument("--only", default="", help="entries whose name holds this text")
    options = parser.parse_args()
    if options.folder is None and not options.compile_only:
        parser.error("name the folder for the outputs, or pass --compile-only")
    if options.compile_only:
        triton.runtime.driver.set_active(OfflineDriver(options.capability))
    else:
        use_allocator()
    started = time.monotonic()
    entries = {name: entry for name, entry in all_entries().items() if options.only in name}
    statuses = run(entries, None if options.compile_only else options.folder)
    failed = sum(status["status"] == "error" for status in statuses.values())
    say(f"triton {triton.__version__}: {len(statuses)} entries, {failed} failed, {time.monotonic() - started:.0f} s")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
