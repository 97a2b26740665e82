"""The implementation of `tests/peers/run`."""
