from __future__ import annotations

from itertools import product

import pytest

from gradient_rl.report.html.palette import DARK, EDGES, GROUNDS, LIGHT, PAIRS, TEXTS, Theme, contrast

THEMES = [pytest.param(LIGHT, id="light"), pytest.param(DARK, id="dark")]


@pytest.mark.parametrize(
    ("first", "second", "ratio"), [("#000000", "#ffffff", 21.0), ("#777777", "#ffffff", 4.48), ("#abcdef", "#abcdef", 1.0)]
)
def test_the_contrast_is_that_of_wcag(first: str, second: str, ratio: float) -> None:
    assert contrast(first, second) == pytest.approx(ratio, abs=0.005)


@pytest.mark.parametrize("theme", THEMES)
def test_every_text_can_be_read_on_every_ground(theme: Theme) -> None:
    pairs = [*product(TEXTS, GROUNDS), *PAIRS]
    poor = [(text, ground) for text, ground in pairs if contrast(theme[text], theme[ground]) < 4.5]

    assert poor == []


@pytest.mark.parametrize("theme", THEMES)
def test_the_outline_of_a_control_is_seen(theme: Theme) -> None:
    assert [(e, g) for e, g in product(EDGES, GROUNDS[:2]) if contrast(theme[e], theme[g]) < 3] == []


def test_both_themes_name_the_same_colours() -> None:
    assert LIGHT.keys() == DARK.keys()
