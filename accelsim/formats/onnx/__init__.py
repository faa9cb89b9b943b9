"""ONNX models: ``reader.py`` makes a workload of a file; what an operator of ONNX becomes is a line of ``rules.py``."""
