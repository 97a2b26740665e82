print("Hello from Python", 6 * 7)
