"""The colours of the page, by theme. Every text colour keeps a contrast of 4.5 : 1 on every ground it stands on."""

from __future__ import annotations

from collections.abc import Mapping

type Theme = Mapping[str, str]
"""Names of custom properties to colours, `#rrggbb`."""

SERIES = 6
"""Colours that policies and lines are told apart by; they begin anew after so many."""

LIGHT: Theme = {
    "ground": "#f5f6f8",
    "surface": "#ffffff",
    "raised": "#eef0f4",
    "ink": "#161a22",
    "muted": "#545e70",
    "line": "#dde1e8",
    "edge": "#808999",
    "accent": "#2a55c9",
    "good": "#0b6b3c",
    "good-ground": "#e3f3ea",
    "bad": "#b3202f",
    "bad-ground": "#fbe9ea",
    "doubt": "#7c5200",
    "doubt-ground": "#fbf1dc",
    "p0": "#8a5200",
    "p1": "#1c5bcb",
    "p2": "#08705a",
    "p3": "#9c2678",
    "p4": "#6a43c4",
    "p5": "#ab3a1c",
}
DARK: Theme = {
    "ground": "#0e1117",
    "surface": "#161a22",
    "raised": "#20262f",
    "ink": "#e8ebf1",
    "muted": "#a0a9b8",
    "line": "#2b323d",
    "edge": "#7a8596",
    "accent": "#93b4ff",
    "good": "#6bd6a0",
    "good-ground": "#16301f",
    "bad": "#ff969c",
    "bad-ground": "#3a1b20",
    "doubt": "#f0c069",
    "doubt-ground": "#332712",
    "p0": "#e8b361",
    "p1": "#8ab5ff",
    "p2": "#5fd0ae",
    "p3": "#f098d2",
    "p4": "#bfa8ff",
    "p5": "#ff9f85",
}
GROUNDS = ("ground", "surface", "raised")
"""Any text colour may stand on these."""
TEXTS = ("ink", "muted", "accent", "good", "bad", "doubt", *(f"p{number}" for number in range(SERIES)))
EDGES = ("edge",)
"""Outlines of controls: 3 : 1 is enough."""
PAIRS = (("good", "good-ground"), ("bad", "bad-ground"), ("doubt", "doubt-ground"), ("surface", "accent"))
"""Text and ground that stand together elsewhere."""


def contrast(first: str, second: str) -> float:
    """The contrast ratio of two colours, 1 to 21 (WCAG 2.2, relative luminance)."""
    lighter, darker = sorted((_luminance(first), _luminance(second)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def properties(theme: Theme) -> str:
    """The theme as CSS declarations."""
    return "".join(f"--{name}:{colour};" for name, colour in theme.items())


def _luminance(colour: str) -> float:
    channels = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
