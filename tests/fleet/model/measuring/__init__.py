"""Measures the inputs of the model on this machine."""
