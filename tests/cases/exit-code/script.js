std.exit(7)
