"""`python -m stillme` is the command `stillme`."""

from stillme.cli import main

main()
