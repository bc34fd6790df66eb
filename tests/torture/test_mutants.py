"""The planted faults: that each still fits the code, that the runner tells a test that sees nothing, and, slowly, all of them."""

from __future__ import annotations

import ast

import pytest

from tests.torture.mutants import HEAD, MUTANTS, ROOT, Mutant, MutantError, line, main, mutated

HARMLESS = Mutant(
    "the terminal is safe",
    "a docstring says something else",
    "gradient_rl/report/terminal.py",
    '"""A value in [0, 1] as a bar."""',
    '"""A bar."""',
    "report/test_terminal.py::test_control_codes_and_overrides_are_stripped",
)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.promise)
def test_a_mutant_fits_the_code_and_its_test_is_there(mutant: Mutant) -> None:
    file, _, name = mutant.test.partition("::")
    tests = ast.parse((ROOT / "tests" / file).read_text("utf-8")).body

    compile(mutated(mutant), mutant.file, "exec")
    assert name.partition("[")[0] in {each.name for each in tests if isinstance(each, ast.FunctionDef)}


@pytest.mark.parametrize(("old", "times"), [("not in the file at all", 0), ("def safe", 3)])
def test_a_mutant_whose_text_is_not_there_once_is_named(old: str, times: int) -> None:
    told = rf"mutant 'the terminal is safe' .* stands {times} times in gradient_rl/report/terminal.py"

    with pytest.raises(MutantError, match=told):
        mutated(HARMLESS._replace(old=old))


def test_a_test_that_notices_nothing_is_told_and_one_that_does_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    harmful = HARMLESS._replace(promise="caught", old='return _CONTROL.sub("", text)', new="return text")

    assert main([], [HARMLESS, harmful]) == 1
    *_, first, second = capsys.readouterr().out.splitlines()
    assert first.endswith("| NOT CAUGHT |")
    assert second.startswith("| caught |")
    assert second.endswith("| caught |")


def test_a_test_that_cannot_run_is_an_error_and_not_a_catch(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([], [HARMLESS._replace(test="report/test_terminal.py::test_that_is_not_there")]) == 1
    assert "error: report/test_terminal.py::test_that_is_not_there: pytest ended with 4" in capsys.readouterr().err


def test_the_page_has_a_row_for_each_mutant_and_no_other() -> None:
    page = (ROOT / "docs/reliability.md").read_text("utf-8")
    _, _, table = page.partition("## Planted faults")[2].partition(HEAD)

    rows = table.split("\n\n")[0].strip("\n").split("\n")
    assert rows == [line(mutant, caught=True) for mutant in MUTANTS]


@pytest.mark.slow
def test_every_mutant_is_caught() -> None:
    assert main([]) == 0
