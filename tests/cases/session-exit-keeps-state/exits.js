var x = 7;
std.exit(3);
