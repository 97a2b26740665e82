"""Runs the simulator, and plots its figures."""
