"""Text as pdflatex reads it, with nothing but `inputenc` (utf8): every character prints, none is a command.

Letters with accents that pdflatex knows stay. Others lose their accents; what has no Latin letter is named by its
number, so that a name in another script never stops a document.
"""

from __future__ import annotations

import re
import unicodedata

SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
    "|": "$|$",
    '"': "''",
    "[": "{[}",  # after a line's end a bracket or a star would be taken for an argument of it
    "]": "{]}",
    "*": "{*}",
    "`": "{}`{}",
    "\n": " ",
    "\t": " ",
    "\N{NO-BREAK SPACE}": "~",
    "\N{NARROW NO-BREAK SPACE}": r"\,",
    "\N{THIN SPACE}": r"\,",
    "\N{SOFT HYPHEN}": r"\-",
    "\N{MINUS SIGN}": "$-$",
    "\N{NON-BREAKING HYPHEN}": r"\mbox{-}",
    "\N{EN DASH}": "--",
    "\N{EM DASH}": "---",
    "“": "``",
    "”": "''",
    "„": ",,",
    "‘": "`",
    "’": "'",
    "…": r"\ldots{}",
    "·": r"$\cdot$",
    "•": r"$\bullet$",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
    "≠": r"$\neq$",
    "≈": r"$\approx$",
    "±": r"$\pm$",
    "×": r"$\times$",
    "÷": r"$\div$",
    "→": r"$\rightarrow$",
    "←": r"$\leftarrow$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "↔": r"$\leftrightarrow$",
    "∞": r"$\infty$",
    "∈": r"$\in$",
    "√": r"$\surd$",
    "∑": r"$\sum$",
    "°": r"$^\circ$",
    "′": r"$'$",
    "″": r"$''$",
    "²": r"$^2$",
    "³": r"$^3$",
    "¹": r"$^1$",
    "½": r"$\frac12$",
    "¼": r"$\frac14$",
    "¾": r"$\frac34$",
    "§": r"\S{}",
    "†": r"\dag{}",
    "‡": r"\ddag{}",
    "✓": r"$\surd$",
    "✗": r"$\times$",
    "ø": r"{\o}",
    "Ø": r"{\O}",
    "ß": r"{\ss}",
    "æ": r"{\ae}",
    "Æ": r"{\AE}",
    "œ": r"{\oe}",
    "ł": r"{\l}",
    "Ł": r"{\L}",
    "€": "EUR",
    "µ": r"$\mu$",
}
_GREEK = """α alpha β beta γ gamma δ delta ε varepsilon ζ zeta η eta θ theta ι iota κ kappa λ lambda μ mu ν nu ξ xi
π pi ρ rho σ sigma τ tau υ upsilon φ varphi χ chi ψ psi ω omega
Γ Gamma Δ Delta Θ Theta Λ Lambda Ξ Xi Π Pi Σ Sigma Φ Phi Ψ Psi Ω Omega"""
_names = iter(_GREEK.split())
SPECIAL |= {letter: rf"$\{name}$" for letter, name in zip(_names, _names, strict=True)}
_APART = "\0"
_ALIKE = re.compile(r"([-'])(?=[-'])")  # two in a row would become one other character
_ACCENTED = set("àáâãäåçèéêëìíîïñòóôõöùúûüýÿÀÁÂÃÄÅÇÈÉÊËÌÍÎÏÑÒÓÔÕÖÙÚÛÜÝ")


def escaped(text: str) -> str:
    r"""
    >>> print(escaped("−1.5 % of A&B_c, Δ ≥ 2 [0, 1]"))
    $-$1.5 \% of A\&B\_c, $\Delta$ $\geq$ 2 {[}0, 1{]}
    """
    return "".join(_character(one) for one in _ALIKE.sub(r"\1" + _APART, text))


def _character(one: str) -> str:
    if one == _APART:
        return "{}"
    if one in SPECIAL:
        return SPECIAL[one]
    if " " <= one <= "~" or one in _ACCENTED:
        return one
    return "".join(_plain(part) for part in unicodedata.normalize("NFKD", one))


def _plain(part: str) -> str:
    """A letter without its accent; of anything else its number."""
    if unicodedata.combining(part) or unicodedata.category(part) in ("Cc", "Cf"):
        return ""
    if part in SPECIAL:
        return SPECIAL[part]
    return part if " " <= part <= "~" else f"U+{ord(part):04X}"
