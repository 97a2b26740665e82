raise RuntimeError("x" * 3_000_000)
