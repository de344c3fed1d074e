"""The LaTeX test needs pdflatex, which is large: it is there only where it is asked for with STILLME_LATEX=1."""

from __future__ import annotations

import os

collect_ignore = [] if os.environ.get("STILLME_LATEX") == "1" else ["test_latex.py"]
