"""Programs: what is left when workload, hardware and schedule have met and nothing remains to choose."""
