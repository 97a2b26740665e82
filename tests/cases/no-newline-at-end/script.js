std.out.puts("last")
