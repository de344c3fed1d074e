"""The report with a link on every number that names its samples. The file on disk stays as it is, and offline."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, urlencode

from markupsafe import Markup, escape

from stillme.report.sections.outcomes import LOOK

SAMPLES = "/samples"
HERE = "Every number with a link leads to the edits behind it."
_NUMBER = re.compile(r'(<(?:td|th|strong)\b[^>]* data-samples="([^"]*)"[^>]*>)([^<]*[^<\s])')
_ELSEWHERE = re.compile(r'<a href="[^"#]*browse/index\.html#[^"]*">([^<]*)</a>')  # to the bundle beside the file
_POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">')


def link(html: str, main: tuple[str, str]) -> str:
    """`main`: the experiment and the arm that numbers are about where they do not say."""
    linked = anchored(_ELSEWHERE.sub(r"\1", html), main, f"{SAMPLES}?")
    back = f'<p class="subtitle"><a href="{SAMPLES}">All edits</a> · {HERE}</p>\n</header>'
    return linked.replace(f'<p class="prose">{escape(LOOK)}</p>', "", 1).replace("</header>", back, 1)


def anchored(html: str, main: tuple[str, str], base: str) -> str:
    """Every number that names its samples as a link; `base`: what stands before the query."""
    return _NUMBER.sub(lambda found: f"{found[1]}{_anchor(found[2], found[3], main, base)}", html)


def _anchor(query: str, text: str, main: tuple[str, str], base: str) -> str:
    return f'<a href="{escape(base)}{escape(about(Markup(query).unescape(), main))}">{text}</a>'  # noqa: S704 (unescaped, not marked as safe)


def about(query: str, main: tuple[str, str]) -> str:
    """A number's query as the tool takes it."""
    given = parse_qsl(query)
    names = {name for name, _ in given}
    if "trial" in names or "experiment" in names:
        return query
    return urlencode([("experiment", main[0]), ("arm", main[1]), *given])


def policy(html: str) -> str:
    """The report's own security policy, which names its one style and script; the tool's where it has none."""
    found = _POLICY.search(html)
    if found is None:
        from stillme.web.middleware import HEADERS  # needs the extra `web`, which writing a report does not

        return HEADERS["Content-Security-Policy"]
    return f"{Markup(found[1]).unescape()}; frame-ancestors 'none'"  # noqa: S704 (unescaped, not marked as safe)
