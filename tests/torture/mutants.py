"""A planted fault for each promise, and the test that has to notice it: `python -m tests.torture.mutants [--only TEXT]`.

A test that passes says little until it has been seen to fail. Here each promise is broken in a copy of the package, by one
replacement in one file, and the test that holds the promise runs against the copy. Exits with 1 if any test did not notice,
or fails in a copy in which nothing is broken.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent.parent
COPIED = ("gradient_rl", "tests")
"""What a copy has of its own; the rest of the checkout is linked."""
LIMIT_S = 120.0
SETTINGS = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": "", "NO_COLOR": "1", "COLUMNS": "300"}


class Mutant(NamedTuple):
    """One promise, one way to break it, and the test that must fail then."""

    promise: str
    broken: str
    file: str
    old: str
    """Stands exactly once in the file."""
    new: str
    test: str
    """`FILE::FUNCTION`, or with `[CASE]` behind it, below `tests/`."""


RUNS = "gradient_rl/runs.py"
PROFILE = "gradient_rl/rewards/profile.py"
CITATIONS = "gradient_rl/rewards/citations.py"
SUBMISSION = "gradient_rl/rewards/submission.py"
ENDPOINT = "gradient_rl/policies/endpoint.py"
CHAT = "gradient_rl/policies/chat.py"
WATCH = "gradient_rl/evaluation/watch.py"

MUTANTS = (
    Mutant(
        "a record is on the disk before it counts",
        "the journal is not synced",
        RUNS,
        "                _write_all(self._fd, lines)\n                os.fsync(self._fd)\n",
        "                _write_all(self._fd, lines)\n",
        "test_runs.py::test_a_record_is_synced_before_it_is_acknowledged",
    ),
    Mutant(
        "a record that was refused is not in the file",
        "half of a failed write stays",
        RUNS,
        "os.ftruncate(self._fd, self._end)",
        "pass",
        "test_runs.py::test_a_full_disk_leaves_the_journal_without_the_record",
    ),
    Mutant(
        "a torn line is never read as data",
        "the tail is not cut off on opening",
        RUNS,
        "            if tail:\n                os.ftruncate(self._fd, end)\n",
        "",
        "test_runs.py::test_a_torn_tail_is_moved_aside_and_counted_and_the_next_record_stands_alone",
    ),
    Mutant(
        "a torn line is kept in NAME.torn",
        "the tail is cut off and dropped",
        RUNS,
        "                write_whole(torn, moved)\n",
        "",
        "test_runs.py::test_a_second_torn_tail_is_kept_beside_the_first",
    ),
    Mutant(
        "a whole file is the old one or the new one",
        "it is written in place",
        RUNS,
        'temporary = path.with_name(f".{path.name}.tmp")',
        "temporary = path",
        "test_runs.py::test_a_full_disk_leaves_the_old_whole_file_and_no_temporary_one",
    ),
    Mutant(
        "a whole file is on the disk before it takes the name",
        "it is not synced",
        RUNS,
        "            os.fsync(fd)\n            temporary.replace(path)\n",
        "            temporary.replace(path)\n",
        "test_runs.py::test_a_whole_file_is_synced_before_it_takes_the_name_and_the_folder_after",
    ),
    Mutant(
        "a folder has one writer",
        "the lock is not taken",
        RUNS,
        "            lock.acquire()\n",
        "            pass\n",
        "test_runs.py::test_a_folder_has_one_writer_at_a_time",
    ),
    Mutant(
        "an earlier run is moved, never overwritten",
        "the first name is taken, whether it is free or not",
        RUNS,
        "if not any((h / path.name).exists() for path in moving)",
        "if h",
        "test_runs.py::test_two_runs_with_the_same_label_are_both_kept",
    ),
    Mutant(
        "a run is resumed only as what it was",
        "changed fields are not compared",
        RUNS,
        "        if before != now:\n",
        "        if False:\n",
        "test_runs.py::test_resuming_a_changed_run_names_the_first_field_and_both_values",
    ),
    Mutant(
        "the same key twice is an error",
        "the journal takes a key that it has",
        RUNS,
        "        if key in self.keys:\n",
        "        if False:\n",
        "test_runs.py::test_a_key_is_never_written_twice",
    ),
    Mutant(
        "an episode that is there is not played again",
        "a resume does not look at what is done",
        "gradient_rl/evaluation/run.py",
        "        if (task.id, sample) in self._done:\n",
        "        if False:\n",
        "evaluation/test_run.py::test_a_complete_run_that_is_resumed_plays_nothing",
    ),
    Mutant(
        "efficiency pays only for what is right",
        "it is not multiplied by correctness",
        "gradient_rl/rewards/efficiency.py",
        "PartScore(submission.correctness * economy, reasons)",
        "PartScore(economy, reasons)",
        "rewards/test_parts.py::test_efficiency_is_scaled_by_correctness",
    ),
    Mutant(
        "a list of sources proves nothing",
        "citations of any precision earn their F1",
        CITATIONS,
        "MIN_PRECISION = 0.5\n",
        "MIN_PRECISION = 0.0\n",
        "rewards/test_parts.py::test_citations_of_which_most_are_wrong_earn_nothing",
    ),
    Mutant(
        "a citation of an unopened record is wrong",
        "citations count unread",
        CITATIONS,
        "right = submission.cited & submission.opened & required",
        "right = submission.cited & required",
        "rewards/test_parts.py::test_citing_an_unopened_record_lowers_precision",
    ),
    Mutant(
        "a guess earns nothing",
        "require_opened is ignored",
        SUBMISSION,
        "if not judgement.stated or not self.require_opened:",
        "if True:",
        "rewards/test_parts.py::test_a_guess_without_reading_earns_nothing",
    ),
    Mutant(
        "a rival beside the value voids it",
        "rivals are ignored",
        "gradient_rl/rewards/facts.py",
        "rivals = [rival for rival in fact.rivals if rival not in _terms(fact)]",
        "rivals = list(fact.rivals[:0])",
        "rewards/test_facts.py::test_a_rival_in_a_sentence_of_its_own_voids_it_and_a_value_that_is_no_rival_does_not",
    ),
    Mutant(
        "a malformed episode scores 0",
        "it is scored like a submission",
        PROFILE,
        "if trajectory.stop_reason is not StopReason.SUBMITTED:",
        "if trajectory.stop_reason not in (StopReason.SUBMITTED, StopReason.MALFORMED):",
        "rewards/test_profile.py::test_a_malformed_episode_earns_nothing_whatever_it_holds",
    ),
    Mutant(
        "an infrastructure failure has no reward",
        "it scores 0",
        PROFILE,
        "    if trajectory.stop_reason.is_infrastructure:\n        return None\n",
        "",
        "rewards/test_profile.py::test_an_infrastructure_failure_has_no_reward",
    ),
    Mutant(
        "the total is the weighted sum",
        "it is the mean of the parts",
        PROFILE,
        "sum(part.weight * part.value for part in parts)",
        "sum(part.value for part in parts) / len(parts)",
        "rewards/test_profile.py::test_the_total_is_the_weighted_sum_of_the_parts",
    ),
    Mutant(
        "supported means opened and cited",
        "citing is not asked for",
        "gradient_rl/rewards/supported.py",
        "opened=submission.opened & submission.cited",
        "opened=submission.opened",
        "evaluation/test_metrics.py::test_a_right_answer_is_supported_when_its_evidence_was_opened_and_cited",
    ),
    Mutant(
        "a page escapes all text",
        "the templates do not escape",
        "gradient_rl/report/html/page.py",
        "autoescape=True",
        "autoescape=False",
        "report/html/test_page.py::test_text_of_records_is_escaped_in_the_template_and_without_control_characters",
    ),
    Mutant(
        "a page's data cannot end its script element",
        "its JSON holds < and >",
        "gradient_rl/report/html/room.py",
        "    return text.translate(_ESCAPES)\n",
        "    return text\n",
        "report/html/test_page.py::test_json_in_a_script_holds_nothing_that_html_knows_and_reads_back",
    ),
    Mutant(
        "no control code reaches the terminal",
        "they are not stripped",
        "gradient_rl/report/terminal.py",
        '    return _CONTROL.sub("", text)\n',
        "    return text\n",
        "report/test_terminal.py::test_hostile_text_reaches_the_terminal_as_text",
    ),
    Mutant(
        "a key is in no message",
        "an endpoint hides nothing",
        ENDPOINT,
        "return self._any_secret.sub(HIDDEN, text)",
        "return text",
        "policies/test_chat.py::test_a_key_in_the_url_is_not_told",
    ),
    Mutant(
        "a key that the server echoes is in no reply",
        "replies are kept as they came",
        ENDPOINT,
        "return self._real_secret.sub(HIDDEN, text)",
        "return text",
        "policies/test_chat.py::test_a_key_that_the_server_echoes_is_hidden_in_the_reply",
    ),
    Mutant(
        "the embedded server answers to its own host alone",
        "the Host header is not looked at",
        "gradient_rl/embedded/server.py",
        '            self._check_host(request.headers.get("Host", ""))\n',
        "",
        "embedded/test_server.py::test_another_host_is_refused",
    ),
    Mutant(
        "a 503 that stays is no reward",
        "it counts as malformed, which is 0",
        "gradient_rl/rollout/runner.py",
        '        episode.stop(StopReason.TRANSPORT_ERROR)\n        return f"{error}"[:MAX_ERROR_CHARS]\n',
        '        episode.stop(StopReason.MALFORMED)\n        return f"{error}"[:MAX_ERROR_CHARS]\n',
        "policies/test_chat.py::test_an_outage_leaves_no_reward_and_no_key",
    ),
    Mutant(
        "a 503 is asked again",
        "it is taken for a refusal",
        "gradient_rl/policies/faults.py",
        "(status in _AGAIN or status >= 500)",
        "status in _AGAIN",
        "policies/test_chat.py::test_retry_after_counts_with_a_503_too",
    ),
    Mutant(
        "five requests a reply are all",
        "ten times as many are made",
        CHAT,
        "for attempt in range(1, endpoint.attempts + 1):",
        "for attempt in range(1, 10 * endpoint.attempts + 1):",
        "policies/test_chat.py::test_a_fault_that_stays_is_a_transport_error_after_all_attempts",
    ),
    Mutant(
        "a policy that obeys a planted instruction is counted",
        "nothing is ever a hit",
        "gradient_rl/evaluation/planting.py",
        "    if plant.aim is Aim.CITATION:\n",
        "    if plant:\n        return False\n    if plant.aim is Aim.CITATION:\n",
        "evaluation/test_attack.py::test_what_counts_as_a_hit",
    ),
    Mutant(
        "an evaluation warns of reward without support",
        "a lack of support is not looked at",
        WATCH,
        "    if reward.low <= 0 or supported.difference is None or supported.difference > TIE:\n",
        "    if reward.low <= 0 or supported.difference is None:\n",
        "evaluation/test_watch.py::test_no_other_pair_is_warned_of",
    ),
    Mutant(
        "the hacking watch waits for two in a row",
        "it warns at the first",
        WATCH,
        "IN_A_ROW = 2\n",
        "IN_A_ROW = 1\n",
        "evaluation/test_watch.py::test_reward_without_right_answers_is_warned_of_at_the_second_validation_in_a_row",
    ),
    Mutant(
        "over 5% without a reward is no verdict",
        "any share will do",
        "gradient_rl/evaluation/statistics.py",
        "MAX_EXCLUDED = 0.05\n",
        "MAX_EXCLUDED = 1.0\n",
        "evaluation/test_watch.py::test_no_other_pair_is_warned_of",
    ),
    Mutant(
        "the audit names what pays the floor",
        "no height is too high for it",
        "gradient_rl/evaluation/audit.py",
        "        if (finding.mean or 0.0) > MAX_FLOOR:\n",
        "        if False:\n",
        "evaluation/test_audit.py::test_who_does_nothing_sensible_may_earn_a_twentieth_and_no_more",
    ),
)


class MutantError(Exception):
    """A mutant does not fit what it is to break."""


def mutated(mutant: Mutant, root: Path = ROOT) -> str:
    """The text of the mutant's file with its one replacement.

    Raises:
        MutantError: the old text does not stand there exactly once.
    """
    text = (root / mutant.file).read_text("utf-8")
    times = text.count(mutant.old)
    if times != 1:
        raise MutantError(
            f"mutant '{mutant.promise}' ({mutant.broken}): its old text stands {times} times in {mutant.file}, "
            "and has to stand there once; write down what stands there now"
        )
    return text.replace(mutant.old, mutant.new)


@contextmanager
def copied(mutant: Mutant | None, root: Path = ROOT) -> Iterator[Path]:
    """A copy of the checkout, broken in one place or, with None, in none; it is gone after the block."""
    with TemporaryDirectory(prefix="mutant-") as made:
        copy = Path(made) / "checkout"
        copy.mkdir()
        for entry in root.iterdir():
            if entry.name in COPIED:
                shutil.copytree(entry, copy / entry.name)
            elif not entry.name.startswith("."):
                (copy / entry.name).symlink_to(entry)
        if mutant:
            _break(copy / mutant.file, mutated(mutant, root))
        yield copy


def _break(file: Path, text: str) -> None:
    """Write the text, and forget what was compiled before it: of the same size and second, it would be taken for it."""
    file.write_text(text, "utf-8")
    for compiled in file.parent.glob(f"__pycache__/{file.stem}.*"):
        compiled.unlink()


def failed_in(copy: Path, tests: Sequence[str], limit_s: float = LIMIT_S) -> tuple[str | None, str]:
    """The first test that failed in a copy, None if all passed, and what pytest printed.

    Raises:
        MutantError: pytest ended in some other way, which tells nothing of the tests, or took too long.
    """
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-x", "-q", "--tb=short", "-rf", "-m", ""]
    command += [f"--basetemp={copy.parent / 'tmp'}", *(f"tests/{test}" for test in tests)]
    environment = {**os.environ, **SETTINGS, "PYTHONPATH": str(copy)}
    try:
        ran = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, text=True, check=False, timeout=limit_s * len(tests)
        )
    except subprocess.TimeoutExpired:
        raise MutantError(f"{', '.join(tests)}: no end within {limit_s * len(tests):g} s") from None
    failed = next((line.split()[1] for line in ran.stdout.splitlines() if line.startswith("FAILED ")), None)
    if ran.returncode not in (0, 1) or (ran.returncode == 1) != (failed is not None):
        raise MutantError(f"{', '.join(tests)}: pytest ended with {ran.returncode}\n{(ran.stdout + ran.stderr)[-2000:]}")
    return failed, ran.stdout


def line(mutant: Mutant, caught: bool) -> str:
    """A row of the table."""
    return f"| {mutant.promise} | {mutant.broken} | `{mutant.test}` | {'caught' if caught else 'NOT CAUGHT'} |"


HEAD = "| promise | what was broken | test | |\n|---|---|---|---|"


def main(arguments: Sequence[str] | None = None, mutants: Sequence[Mutant] = MUTANTS) -> int:
    """Read the command line, break one thing after the other, tell each."""
    parser = argparse.ArgumentParser(prog="python -m tests.torture.mutants", description=__doc__)
    parser.add_argument("--only", action="append", metavar="TEXT", help="mutants with this in a field; repeat for several")
    parser.add_argument("--limit", type=float, default=LIMIT_S, metavar="SECONDS", help="of one test (default 120)")
    given = parser.parse_args(arguments)
    chosen = [mutant for mutant in mutants if any(text in field for text in given.only or [""] for field in mutant)]
    if not chosen:
        parser.error("no mutant has this in a field")
    missed = 0
    try:
        for mutant, caught in tried(chosen, given.limit):
            print(line(mutant, caught), flush=True)
            missed += not caught
    except MutantError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 1 if missed else 0


def tried(mutants: Sequence[Mutant], limit_s: float = LIMIT_S) -> Iterator[tuple[Mutant, bool]]:
    """Each mutant, and whether its test failed; first of all the tests run in a copy in which nothing is broken.

    Raises:
        MutantError: a test fails there, or as `mutated` and `failed_in`.
    """
    for mutant in mutants:
        mutated(mutant)
    with copied(None) as whole:
        failed, printed = failed_in(whole, sorted({mutant.test for mutant in mutants}), limit_s)
        if failed:
            raise MutantError(f"{failed} fails where nothing is broken\n{printed[-2000:]}")
        print(HEAD, flush=True)
        for mutant in mutants:
            with copied(mutant, whole) as broken:
                failed, _ = failed_in(broken, [mutant.test], limit_s)
            yield mutant, failed is not None


if __name__ == "__main__":
    sys.exit(main())
