"""Promises about the package as a whole: what imports what, what an import costs, how large a function grows."""

from __future__ import annotations

import ast
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import gradient_rl

PACKAGE = Path(gradient_rl.__file__).parent
HEAVY = {"openai", "art", "wandb", "torch", "litellm", "scipy.stats", "pandas", "polars", "aiohttp"}
MODULES = sorted(PACKAGE.rglob("*.py"))


def loaded_by(code: str) -> set[str]:
    script = f"import sys\n{code}\nprint('\\n'.join(sys.modules), file=sys.stderr)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return set(run.stderr.splitlines())


def test_importing_the_package_loads_nothing_heavy() -> None:
    loaded = loaded_by("import gradient_rl")

    assert not loaded & (HEAVY | {"numpy", "pydantic", "typer", "rich"})


def commands() -> list[str]:
    import tomllib

    project = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text("utf-8"))["project"]
    return sorted(entry.partition(":")[0] for entry in project["scripts"].values())


@pytest.mark.parametrize("module", commands())
def test_help_loads_nothing_heavy(module: str) -> None:
    code = f"from {module} import main\nsys.argv = ['command', '--help']\ntry:\n    main()\nexcept SystemExit: pass"

    assert not loaded_by(code) & (HEAVY | {"numpy", "pydantic", "openai"})


@pytest.mark.parametrize("module", commands())
def test_help_prints_its_options(module: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", f"from {module} import main; main()", "--help"], capture_output=True, text=True, check=False
    )

    assert run.returncode == 0
    assert "--help" in run.stdout


def test_every_public_name_can_be_reached() -> None:
    for name in gradient_rl.__all__:
        assert getattr(gradient_rl, name) is not None


def test_an_unknown_public_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'gradient_rl' has no attribute 'nothing'"):
        _ = gradient_rl.nothing


def functions() -> Iterator[tuple[str, int]]:
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                documented = isinstance(node.body[0], ast.Expr) and isinstance(node.body[0].value, ast.Constant)
                body = node.body[1:] if documented else node.body
                if body:
                    yield f"{path.relative_to(PACKAGE)}:{node.name}", (body[-1].end_lineno or 0) - body[0].lineno + 1


def test_functions_fit_a_glance() -> None:
    sizes = sorted(size for _, size in functions())

    assert statistics.median(sizes) <= 7
    assert sizes[int(0.9 * len(sizes))] <= 25


def test_only_the_commands_print_and_exit() -> None:
    for path in MODULES:
        if "cli" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            called = node.func if isinstance(node, ast.Call) else None
            assert not (isinstance(called, ast.Name) and called.id in ("print", "exit")), path


def test_broad_catches_are_in_the_runner_and_around_a_command_only() -> None:
    broad = [
        path.relative_to(PACKAGE).as_posix()
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ExceptHandler) and isinstance(node.type, ast.Name) and node.type.id == "Exception"
    ]

    assert broad == ["cli/terminal.py", "rollout/runner.py"]
