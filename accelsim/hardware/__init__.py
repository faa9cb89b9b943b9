"""Accelerators: templates, the parts they describe, and what a tile costs on them."""
