"""``python -m converter.cli``."""

from converter.cli import main

main()
