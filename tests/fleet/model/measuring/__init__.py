"""Measures the inputs of the model on the machine it runs on."""
