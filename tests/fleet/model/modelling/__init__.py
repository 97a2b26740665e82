"""Runs the simulator, and draws what it says."""
