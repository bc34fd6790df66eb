"""The page as HTML: one file that holds all it needs, and a content-security policy that lets it reach nothing else."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gradient_rl.report.evaluation import provenance
from gradient_rl.report.html.charts import HEIGHT, WIDTH, bars
from gradient_rl.report.html.data import MOST_BYTES, Material, Page, data_of, page_of
from gradient_rl.report.html.palette import DARK, LIGHT, SERIES, properties
from gradient_rl.report.html.room import script_json
from gradient_rl.report.terminal import safe
from gradient_rl.schema.evaluation import Evaluation

if TYPE_CHECKING:
    from jinja2 import Environment

_HERE = Path(__file__).parent
_SLACK = 30_000
"""Bytes that a page may differ from what was estimated for its tasks."""
_METRICS = (
    "correctness",
    "citation_f1",
    "efficiency",
    "found",
    "read",
    "cited",
    "supported",
    "calls",
    "malformed",
    "pass@1",
)
"""Columns of the table of policies, where they were measured."""


def document(material: Material, most_bytes: int = MOST_BYTES) -> bytes:
    """The file to write, UTF-8, smaller than `most_bytes` wherever it can be: one task is always in it.

    A page that is too large is made again with the room that it leaves its tasks.
    """
    page = page_of(material, most_bytes)
    file = _encoded(page)
    room = most_bytes - (len(_encoded(replace(page, tasks=(), records={}))) if len(file) >= most_bytes else 0)
    while len(file) >= most_bytes and len(page.tasks) > 1:
        room = max(0, room - _SLACK)
        page = page_of(material, room)
        file = _encoded(page)
    return file


def _encoded(page: Page) -> bytes:
    return render(page).encode("utf-8", "backslashreplace")


def render(page: Page) -> str:
    """The page as one HTML document.

    Everything that stands in a record is escaped by the template or is in the block of data, which the script puts on
    the page as text.
    """
    from markupsafe import Markup

    css, script = _css(), (_HERE / "page.js").read_text("utf-8")
    results = page.evaluation.policies
    drawn, top = bars([result.metrics.get("reward") for result in results.values()])
    measured = {name for policy in results.values() for name in policy.metrics}
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            page=page,
            num=_number,
            words=_words,
            css=Markup(css),
            script=Markup(script),
            data=Markup(script_json(data_of(page))),
            policy=_policy(css, script),
            size=(WIDTH, HEIGHT),
            series=SERIES,
            samples=f"{page.evaluation.samples} sample{'s' * (page.evaluation.samples != 1)} each",
            metrics=[name for name in _METRICS if name in measured],
            policies=[(*entry, bar) for entry, bar in zip(results.items(), drawn, strict=True)],
            top=top,
            families=sorted({task.family for task in page.tasks}),
            seen=list(dict.fromkeys(name for task in page.tasks for name in task.behaviours)),
            provenance=_how(page.evaluation).items(),
        )
    )


def _how(evaluation: Evaluation) -> dict[str, str]:
    """How it was run, as far as that is known; a demonstration is no run."""
    known = {name: value for name, value in provenance(evaluation).items() if value not in ("", "-")}
    return {name: value for name, value in known.items() if evaluation.run_id or name != "run"}


def _environment() -> Environment:
    """The templates; a part that a page does not need is not compiled."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    loader = FunctionLoader(lambda name: (_HERE / name).read_text("utf-8"))
    return Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, loader=loader, finalize=_shown)


def _shown(value: object) -> object:
    """What the template puts out: text of records without control characters; our own markup as it is."""
    return safe(value) if type(value) is str else value


def _number(value: float | None, form: str = "%.3f") -> str:
    return "–" if value is None else (form % value).replace("-", "−")


def _words(name: str) -> str:
    return name.replace("_", " ")


def _css() -> str:
    """The style sheet, the palette of both themes before it."""
    light, dark = properties(LIGHT), properties(DARK)
    themes = (
        f":root{{color-scheme:light;{light}}}"
        f"@media (prefers-color-scheme:dark){{:root:not([data-theme=light]){{color-scheme:dark;{dark}}}}}"
        f":root[data-theme=dark]{{color-scheme:dark;{dark}}}"
        f"@media print{{:root,:root[data-theme=dark],:root:not([data-theme=light]){{color-scheme:light;{light}}}}}"
    )
    colours = "".join(f".p{n}{{--c:var(--p{n})}}" for n in range(SERIES))
    return f"{themes}{colours}\n{(_HERE / 'page.css').read_text('utf-8')}"


def _policy(css: str, script: str) -> str:
    return f"default-src 'none'; style-src '{_hash(css)}'; script-src '{_hash(script)}'; base-uri 'none'; form-action 'none'"


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
