"""``python -m accelsim``: the command line."""

from accelsim.cli import main

main()
