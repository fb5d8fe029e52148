"""`python -m omnai`."""

from omnai.cli import main

main()
