"""`python -m stillme` is the command `stillme`."""

from stillme.cli.main import main

main()
