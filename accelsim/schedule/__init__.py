"""Schedules in tensor-centric notation: all that may be chosen, and the rules of choosing. Knows no hardware."""
