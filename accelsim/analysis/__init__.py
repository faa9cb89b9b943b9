"""What timelines say: summary and report, energy, traffic."""
