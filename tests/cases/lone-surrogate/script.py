print("a\ud800b")
