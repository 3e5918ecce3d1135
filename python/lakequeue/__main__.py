"""`python -m lakequeue`, the same as `lakequeue`."""

from lakequeue.cli import main

main()
