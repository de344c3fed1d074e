"""Every table of a small run and of hard cases, compiled by pdflatex in a document that loads next to nothing.

apt-get install --no-install-recommends texlive-latex-base texlive-latex-recommended
STILLME_LATEX=1 pytest tests/report/files/test_latex.py
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from stillme.report.build import sections
from stillme.report.files import flat, write
from stillme.report.files.paper import paper_tables
from stillme.report.tables import Table
from tests.report.files.made import nasty, tall, wide
from tests.report.synthetic_audit import audit, context

DOCUMENT = r"""\documentclass{article}
\usepackage[utf8]{inputenc}
\usepackage{booktabs}
\begin{document}
%s
\end{document}
"""


def test_every_table_compiles(tmp_path: Path) -> None:
    findings, said = audit(prompts=3), context()
    blocks = [block for section in sections(findings, said) for block in flat(section.blocks)]
    tables = [block for block in blocks if isinstance(block, Table)]
    tables += [*paper_tables(findings, said, {}), nasty(), tall(), wide()]
    for table in tables:
        write(table, tmp_path)
    read = "\n".join(rf"\input{{{table.id}}}\clearpage" for table in tables)
    (tmp_path / "all.tex").write_text(DOCUMENT % read, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace")
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "all.pdf").stat().st_size > 10_000
    assert "Missing character" not in done.stdout
