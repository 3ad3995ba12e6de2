"""The nine levels are steps of one hue: text on them is legible, and neighbours differ for every kind of sight."""

import itertools
import math
import re

import pytest

from inturn.http.routes.static_files import load_bundle

RULE = re.compile(
    r"\.level-(\d) \{ --level: light-dark\((#\w{6}), (#\w{6})\); --on-level: light-dark\((#\w{6}), (#\w{6})\); \}"
)
MIN_CONTRAST = 4.5
"""WCAG 2.2, 1.4.3: small text."""
MIN_DIFFERENCE = 0.05
"""Of Oklab. A difference that is just noticeable is about 0.02."""
MAX_HUE_SPREAD_DEGREES = 12
SIGHTS = {
    "usual": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritanopia": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}
"""Machado, Oliveira and Fernandes (2009), severity 1.0, on linear RGB."""
THEMES = ("light", "dark")


def steps(theme: str) -> dict[int, tuple[str, str]]:
    """Each level's colour, and that of text on it."""
    tokens = load_bundle().files["style/tokens.css"].body.decode()
    place = THEMES.index(theme)
    return {int(level): (colours[place], colours[2 + place]) for level, *colours in RULE.findall(tokens)}


def linear(colour: str) -> tuple[float, ...]:
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return tuple(part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)


def contrast(one: str, other: str) -> float:
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def oklab(rgb: tuple[float, ...]) -> tuple[float, float, float]:
    cone = (
        (0.4122214708, 0.5363325363, 0.0514459929),
        (0.2119034982, 0.6806995451, 0.1073969566),
        (0.0883024619, 0.2817188376, 0.6299787005),
    )
    roots = [max(0.0, value) ** (1 / 3) for value in _apply(cone, rgb)]
    lightness, a, b = _apply(
        (
            (0.2104542553, 0.7936177850, -0.0040720468),
            (1.9779984951, -2.4285922050, 0.4505937099),
            (0.0259040371, 0.7827717662, -0.8086757660),
        ),
        tuple(roots),
    )
    return lightness, a, b


@pytest.mark.parametrize("theme", THEMES)
def test_text_on_every_level_is_legible(theme: str) -> None:
    colours = steps(theme)
    assert sorted(colours) == list(range(10))
    low = {level: contrast(*pair) for level, pair in colours.items() if contrast(*pair) < MIN_CONTRAST}
    assert low == {}


@pytest.mark.parametrize("theme", THEMES)
def test_levels_are_steps_of_one_hue(theme: str) -> None:
    points = [oklab(linear(steps(theme)[level][0])) for level in range(1, 10)]
    hues = [math.degrees(math.atan2(b, a)) for _, a, b in points]
    assert max(hues) - min(hues) < MAX_HUE_SPREAD_DEGREES
    lightness = [point[0] for point in points]
    assert lightness == sorted(lightness, reverse=theme == "light")


@pytest.mark.parametrize("sight", SIGHTS)
@pytest.mark.parametrize("theme", THEMES)
def test_neighbouring_levels_differ_for_every_kind_of_sight(theme: str, sight: str) -> None:
    seen = [oklab(_apply(SIGHTS[sight], linear(steps(theme)[level][0]))) for level in range(1, 10)]
    close = [
        (level, round(math.dist(one, other), 3))
        for level, (one, other) in enumerate(itertools.pairwise(seen), 1)
        if math.dist(one, other) < MIN_DIFFERENCE
    ]
    assert close == []


def _luminance(colour: str) -> float:
    red, green, blue = linear(colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _apply(matrix: tuple[tuple[float, ...], ...], values: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(sum(factor * value for factor, value in zip(row, values, strict=True)) for row in matrix)
