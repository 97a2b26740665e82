"""What `tests/peers/run` is made of."""
