"""Sphinx settings. The pages: ``sphinx-build -W docs docs/_build``; their examples: with ``-b doctest``."""

from accelsim import __version__

project = "accelsim"
author = "the accelsim authors"
copyright = "the accelsim authors, Apache-2.0"
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.doctest"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = f"accelsim {version}"
html_show_sphinx = False

doctest_global_setup = "import accelsim"
