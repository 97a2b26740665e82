print(hash("glovebox") % 1_000_003, list({"a", "b", "c", "d", "e"}))
