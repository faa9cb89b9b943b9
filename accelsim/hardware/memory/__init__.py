"""Off-chip memories. ``DramMemory`` is simulated command by command, ``IdealMemory`` has bandwidth and latency only."""
