console.log(1);
std.out.puts("2\n");
std.out.flush();
print(3);
std.out.printf("%d\n", 4);
std.err.puts("e1\n");
console.error("e2");
