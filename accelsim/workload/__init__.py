"""Workloads: graphs of operators joined by the tensors they exchange. Knows no hardware and no schedule."""
