"""Matplotlib's SVG made fit for a page: no style in it, no prolog, no metadata, little of it, and named.

The page's security policy allows no style but its own, so colours that turn with the mode become classes (see
plots.css) and everything else presentation attributes. Reads only what `render` wrote.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import groupby
from xml.etree import ElementTree

from markupsafe import Markup, escape

from stillme.report.plots.palette import INK, THEME
from stillme.report.plots.sheet import SIZE, Sheet

_SVG = "{http://www.w3.org/2000/svg}"
_NUMBER = re.compile(r"-?\d+\.\d+")
_TURNED = re.compile(r"rotate\(-90 ")
_FAMILY = "'DejaVu Sans', 'Segoe UI', 'Noto Sans', 'Liberation Sans', Arial, sans-serif"
_KEPT = ("fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "fill-opacity", "stroke-opacity")


def page(content: bytes, id: str, title: str, alternative: str, sheet: Sheet) -> Markup:
    """For a page: fonts are the page's, ink and lines turn with its mode."""
    named = {"role": "img", "aria-labelledby": f"{id}-title {id}-desc"}
    names = _named(title, alternative, f"{id}-")
    return _svg({**named, "class": "sheet", "viewBox": _view(sheet)}, names, content, themed=True)


def phone(content: bytes, id: str, sheet: Sheet) -> Markup:
    """The same for a narrow page, which shows it in the place of the other: named by the other's words."""
    named = {"role": "img", "aria-labelledby": f"{id}-title {id}-desc"}
    return _svg({**named, "class": "sheet narrow", "viewBox": _view(sheet)}, "", content, themed=True)


def alone(content: bytes, title: str, alternative: str, sheet: Sheet) -> Markup:
    """As a file of its own, in light colours."""
    size = {"width": f"{sheet.width:g}pt", "height": f"{sheet.height:g}pt"}
    root = {"xmlns": "http://www.w3.org/2000/svg", **size, "viewBox": _view(sheet), "font-family": _FAMILY}
    root |= {"fill": INK, "role": "img", "aria-labelledby": "title desc"}
    return _svg(root, _named(title, alternative, ""), content, themed=False) + Markup("\n")


def _view(sheet: Sheet) -> str:
    return f"0 0 {sheet.width:g} {sheet.height:g}"


def _named(title: str, alternative: str, prefix: str) -> str:
    said = {"title": title, "desc": alternative}
    return "".join(_tag(tag, {"id": f"{prefix}{tag}"}, str(escape(text))) for tag, text in said.items())


def _svg(root: Mapping[str, str], names: str, content: bytes, themed: bool) -> Markup:
    parts = "".join(_parts(ElementTree.fromstring(content), themed))  # noqa: S314 (SVG that we drew ourselves)
    return Markup(_tag("svg", {**root, "font-size": f"{SIZE:g}"}, names + parts))  # noqa: S704 (every part was escaped by _tag)


def _parts(root: ElementTree.Element, themed: bool) -> Iterator[str]:
    """Every path, and then the words; those that look alike share a group that says how."""
    yield from (_path(element, themed) for element in root.iter(f"{_SVG}path"))
    for look, texts in groupby(root.iter(f"{_SVG}text"), key=lambda element: _look(element, themed)):
        yield _tag("g", dict(look), "".join(map(_text, texts)))


def _path(element: ElementTree.Element, themed: bool) -> str:
    d = _shortened(element.get("d", "")).replace(" z", "z")
    return _tag("path", {**_looks({"fill": "none"} | _style(element), themed), "d": d}, "")


def _look(element: ElementTree.Element, themed: bool) -> tuple[tuple[str, str], ...]:
    style = _style(element)
    size, anchor = style.get("font-size", "").removesuffix("px"), style.get("text-anchor", "start")
    colour = style.get("fill", "#000000")
    about = {
        **({} if colour == INK else _looks({"fill": colour}, themed)),
        "font-size": size if size != f"{SIZE:g}" else "",
        "font-weight": style.get("font-weight", ""),
        "text-anchor": anchor if anchor != "start" else "",
    }
    return tuple((name, value) for name, value in about.items() if value)


def _text(element: ElementTree.Element) -> str:
    about = {name: _shortened(element.get(name, "")) for name in ("x", "y")}
    if _TURNED.match(element.get("transform", "")):
        about["transform"] = _shortened(element.get("transform", ""))
    return _tag("text", about, str(escape(element.text or "")))


def _style(element: ElementTree.Element) -> dict[str, str]:
    pairs = (part.split(":", 1) for part in element.get("style", "").split(";") if ":" in part)
    return {name.strip(): value.strip() for name, value in pairs}


def _looks(style: Mapping[str, str], themed: bool) -> dict[str, str]:
    """Classes for colours of the page, attributes for the rest."""
    classes, kept = [], {}
    for name in _KEPT:
        value = style.get(name, "")
        if themed and name in ("fill", "stroke") and value in THEME:
            classes.append(f"{name}-{THEME[value]}")
        elif value:
            kept[name] = value
    return {**({"class": " ".join(classes)} if classes else {}), **kept}


def _shortened(text: str) -> str:
    """Numbers with one decimal at most, and one space where there are several."""
    rounded = _NUMBER.sub(lambda found: f"{round(float(found[0]), 1):g}", text)
    return re.sub(r"([A-Za-z]) ", r"\1", " ".join(rounded.split()))


def _tag(name: str, attributes: Mapping[str, str], content: str) -> str:
    """An element; `content` is escaped already, attributes are not."""
    spelled = "".join(f' {key}="{escape(value)}"' for key, value in attributes.items())
    return f"<{name}{spelled}>{content}</{name}>" if content else f"<{name}{spelled}/>"
