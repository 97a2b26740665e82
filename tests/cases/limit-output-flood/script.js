for (let i = 0; i < 200; i++) std.out.puts("y".repeat(100_000));
