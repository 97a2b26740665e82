f.puts("two");
