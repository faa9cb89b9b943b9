"""PyTorch modules: ``export.py`` makes a workload of one; ``operators.py`` has a function for each operator."""
