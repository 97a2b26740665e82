print(eval("1 + 2"))
space = {}
exec("def add(a, b): return a + b", space)
print(space["add"](3, 4))
print(compile("1", "<made>", "eval").co_filename)
