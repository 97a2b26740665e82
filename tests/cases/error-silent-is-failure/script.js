std.exit(3)
