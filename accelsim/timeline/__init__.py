"""Timelines: the events of a run, and everything that can be read from them."""
