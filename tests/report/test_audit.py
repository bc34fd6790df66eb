from __future__ import annotations

import io

import pytest
from rich.console import Console

from gradient_rl.evaluation.audit import Audit, Check, Finding, Role, Standing
from gradient_rl.evaluation.holes import Hole
from gradient_rl.report.audit import print_audit, result_object, sentence

WEIGHTS = {"correctness": 0.5, "citation_quality": 0.3, "efficiency": 0.2}
HOLE = Finding(
    check=Check.HOLES,
    hole=Hole.UNGATED,
    part="efficiency",
    policy="empty",
    tries="submits an empty answer at once",
    others=("echo", "filler", "cite-all", "random", "cite-seen"),
    mean=0.2,
    family="two_hops",
    family_mean=0.25,
    task="t-1",
    tasks=70,
)


def standing(name: str, role: Role, mean: float) -> Standing:
    return Standing(name=name, role=role, tries="", mean=mean, parts={"correctness": mean}, families={"two_hops": mean})


def audit_with(*findings: Finding) -> Audit:
    standings = (standing("reference", Role.REFERENCE, 1.0), standing("\x1b[31mempty", Role.FLOOR, 0.0))
    return Audit(weights=WEIGHTS, require_opened=True, seed=0, tasks=70, episodes=1610, standings=standings, findings=findings)


def printed(audit: Audit) -> str:
    out = io.StringIO()
    print_audit(Console(file=out, width=110), audit, "Next: this.")
    return out.getvalue()


@pytest.mark.parametrize(
    ("finding", "said"),
    [
        (
            HOLE,
            "Part efficiency (weight 0.20) is ungated: it pays for having ended, whatever was answered; empty (submits an empty "
            "answer at once) earns 0.200 over all tasks and 0.250 on two hops through it, as do echo, filler, cite-all and 2 more; "
            "multiply it by submission.correctness.",
        ),
        (
            Finding(check=Check.HOLES, part="citation_quality", policy="cite-seen", mean=0.41, family="lookup", family_mean=0.5),
            "Player cite-seen earns 0.410 over all tasks and 0.500 on lookup, most of it from citation_quality; let right answers "
            "weigh more, or gate that part.",
        ),
        (
            Finding(check=Check.BOUNDS, part="efficiency", policy="echo", task="t-1", tasks=2, detail="returned 2"),
            "Part efficiency (weight 0.20) returned 2 for echo on 2 tasks, such as t-1; make it return a finite value in [0, 1] for "
            "every submission.",
        ),
        (
            Finding(check=Check.REFERENCE, part="efficiency", policy="reference", mean=0.9, task="t-1", tasks=1),
            "Part efficiency (weight 0.20) gives the reference less than 1 on 1 task, such as t-1, where it is 0.90; mend the part or the reference.",
        ),
        (
            Finding(check=Check.REFERENCE, policy="reference", task="t-1", tasks=1, detail="it ends without a submission"),
            "The reference of 1 task, such as t-1, is at fault: it ends without a submission; end it with submit_answer.",
        ),
        (
            Finding(check=Check.SCORED_TWICE, part="correctness", policy="echo", task="t-1", tasks=3, detail="1, then 0.5"),
            "Part correctness (weight 0.50) gives one submission of echo 1, then 0.5, on 3 tasks, such as t-1; take chance, clocks and "
            "memory out of it.",
        ),
        (
            Finding(check=Check.PLAYED_TWICE, policy="random", task="t-1", tasks=3),
            "The episodes of random differ on 3 tasks, such as t-1; let tools and search depend on their arguments alone.",
        ),
        (
            Finding(check=Check.LEAKS, task="t-1", family="lookup", tasks=1, detail="'60 days' in the question"),
            "Task t-1 (lookup) gives away '60 days' in the question; word that text so that it has to be found.",
        ),
    ],
)  # fmt: skip
def test_a_finding_is_a_sentence_with_what_where_figures_and_what_to_do(finding: Finding, said: str) -> None:
    assert sentence(finding, WEIGHTS) == said


@pytest.mark.parametrize("hole", Hole)
def test_every_kind_of_hole_has_words(hole: Hole) -> None:
    said = sentence(HOLE.model_copy(update={"hole": hole}), WEIGHTS)

    assert said.startswith("Part efficiency (weight 0.20) ")
    assert said.count(";") == 2


def test_an_audit_without_findings_says_ok_to_every_check() -> None:
    lines = printed(audit_with()).splitlines()

    assert lines[0] == "0.50 correctness + 0.30 citation_quality + 0.20 efficiency: 70 tasks, 1610 episodes, seed 0"
    assert sum(line.startswith("ok    ") for line in lines) == len(Check)
    assert lines[-1] == "Next: this."


def test_a_failed_check_is_followed_by_its_findings() -> None:
    lines = printed(audit_with(HOLE)).splitlines()
    at = lines.index("FAIL  There is a hole: somebody is paid who did not do the work.")

    assert lines[at + 1] == f"      - {sentence(HOLE, WEIGHTS)}"
    assert sum(line.startswith("ok    ") for line in lines) == len(Check) - 1


def test_names_from_elsewhere_cannot_steer_the_terminal() -> None:
    assert "\x1b" not in printed(audit_with())


def test_the_object_has_each_check_and_each_finding_with_its_sentence() -> None:
    made = result_object(audit_with(HOLE), "data", {"efficiency": "mine:efficiency"})

    assert made["schema_version"] == 1
    assert made["own_parts"] == {"efficiency": "mine:efficiency"}
    checks = {check["name"]: check["passed"] for check in made["checks"]}  # pyright: ignore[reportGeneralTypeIssues, reportIndexIssue, reportUnknownVariableType]
    assert checks == {check: check is not Check.HOLES for check in Check}
    assert made["findings"][0]["said"] == sentence(HOLE, WEIGHTS)  # pyright: ignore[reportIndexIssue]
