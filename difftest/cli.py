"""The command line: `difftest run`, `list` and `replay`.

Exit codes: 0 passed; 1 findings, or nothing was compared; 2 usage or environment.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

# pytest: 0 passed, 1 failed, 2 interrupted or difftest's environment errors, 3 internal error, 4 usage error, 5 nothing collected.
_EXIT_CODES = {0: 0, 1: 1, 2: 2, 3: 2, 4: 2, 5: 1}
_MOST_WORKERS = 16


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="triton-difftest", prog_name="difftest")
def main() -> None:
    """Property-based differential testing for Triton kernels.

    Each registered kernel is held against two references under every specialization policy, on a GPU or, without one, on the simulator.
    """


@main.command()
@click.argument("kernels", nargs=-1)
@click.option("--policy", "policies", multiple=True, metavar="NAME", help="Only this policy (or 'powerset'); may be given several times.")
@click.option("--dtype", "dtypes", multiple=True, metavar="NAME", help="Only this dtype cell; may be given several times.")
@click.option("--engine", metavar="NAME", help="gpu or simulator [default: gpu where there is one, else simulator].")
@click.option("--target", metavar="TARGET", help="What the simulator compiles for, such as cuda:90 or hip:gfx942.")
@click.option("--profile", metavar="NAME", help="smoke, dev, ci or nightly [default: dev].")
@click.option("--cases", type=click.IntRange(min=1), metavar="N", help="Cases that each cell must count.")
@click.option("--seed", type=int, metavar="N", help="Seed of the run; the same seed gives the same cases.")
@click.option("--workers", type=click.IntRange(min=0), metavar="N", help="Worker processes; 0 runs in this one [default: one a core].")
@click.option("--require-gpu", is_flag=True, help="Fail where a GPU test would be skipped.")
def run(kernels: tuple[str, ...], workers: int | None, *, require_gpu: bool, **options: Any) -> None:
    """Judge KERNELS (default: all) and print a table of verdicts.

    \b
    difftest run                            all kernels, policies and dtypes
    difftest run mrope --policy production  one kernel under one policy
    difftest run mrope --seed 7             the cases of an earlier run
    """  # noqa: D301 - click reads the backspace
    roots = _reference_roots()
    arguments = [*roots, "-q", "--no-header", "--tb=short", "-rN", "--difftest-summary", "--continue-on-collection-errors"]
    for name, values in (("kernel", kernels), ("policy", options["policies"]), ("dtype", options["dtypes"])):
        arguments += [f"--difftest-{name}={value}" for value in values]
    for name in ("engine", "target", "profile", "cases", "seed"):
        if options[name] is not None:
            arguments.append(f"--difftest-{name}={options[name]}")
    if require_gpu:
        arguments.append("--require-gpu")
        _demand_gpu(options["engine"])
    with _reporting_misuse():
        _check_words(options)
    count = min(os.cpu_count() or 1, _MOST_WORKERS) if workers is None else workers
    if count > 1:
        arguments += ["-n", str(count)]
    sys.exit(_pytest(arguments))


@main.command(name="list")
def list_() -> None:
    """List the registered kernels with their dtypes and policies."""
    from difftest.discovery import load_registered  # noqa: PLC0415 - loads torch
    from difftest.policy import builtin_policies  # noqa: PLC0415

    builtin = [policy.name for policy in builtin_policies()]
    with _reporting_misuse():
        for spec in load_registered(Path.cwd(), _reference_roots()).values():
            policies = [*builtin, *(policy.name for policy in spec.policies)]
            click.echo(f"{spec.name}\n  dtypes: {', '.join(spec.dtypes)}\n  policies: {', '.join(policies)}")


@main.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--engine", metavar="NAME", help="gpu or simulator [default: the one that found it, where it is here].")
@click.option("--target", metavar="TARGET", help="What the simulator compiles for [default: the file's].")
def replay(file: Path, engine: str | None, target: str | None) -> None:
    """Judge the case of a replay FILE again.

    Exits with 1 while the failure is there, and with 0 when it is not.
    """
    from difftest.replay import replay_file  # noqa: PLC0415 - loads torch

    with _reporting_misuse():
        outcome = replay_file(file, Path.cwd(), engine=engine, target=target)
        click.echo(outcome.text)
        sys.exit(outcome.exit_code)


class _reporting_misuse:  # noqa: N801 - reads as a statement
    """Turns a `DifftestError` into a line on standard error and exit code 2."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        from difftest.errors import DifftestError  # noqa: PLC0415

        if isinstance(error, DifftestError):
            click.echo(f"difftest: {error}", err=True)
            sys.exit(2)


def _reference_roots() -> list[str]:
    """Return the directories that register kernels: the ini option where pytest finds one, else `reference`."""
    from difftest.discovery import reference_roots  # noqa: PLC0415

    roots = reference_roots(Path.cwd())
    missing = [root for root in roots if not Path(root).is_dir()]
    if missing:
        click.echo(
            f"difftest: no directory {missing[0]!r} here ({Path.cwd().name}/); run in a project whose pytest configuration names its "
            "reference directories in `difftest_references`, or make reference/<op>.py",
            err=True,
        )
        sys.exit(2)
    return roots


def _check_words(options: dict[str, Any]) -> None:
    """Check the words that every cell would refuse alike, before the first one."""
    from difftest.profiles import profile_named  # noqa: PLC0415

    profile_named(options["profile"] or "dev")
    if options["engine"] is not None or options["target"] is not None:
        from difftest.engines import default_engine_name, engine_named  # noqa: PLC0415

        engine_named(options["engine"] or default_engine_name(), target=options["target"])


def _demand_gpu(engine: str | None) -> None:
    import torch  # noqa: PLC0415

    if engine != "simulator" and not torch.cuda.is_available():
        click.echo("difftest: --require-gpu: torch sees no GPU; run on a GPU machine, or leave it out to use the simulator", err=True)
        sys.exit(2)


def _pytest(arguments: list[str]) -> int:
    """Run pytest in this process, with the plugin, and return difftest's exit code."""
    import pytest  # noqa: PLC0415

    from difftest.discovery import plugin_is_installed  # noqa: PLC0415

    if not plugin_is_installed() and not Path("conftest.py").exists():
        arguments = ["-p", "difftest.plugin", *arguments]
    return _EXIT_CODES.get(int(pytest.main(arguments)), 2)


if __name__ == "__main__":
    main()
