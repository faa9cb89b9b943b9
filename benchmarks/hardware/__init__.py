"""Published and measured figures of real machines, and accelsim's for the same work."""
