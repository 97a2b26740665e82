std.out.puts("name? ");
const name = std.in.getline();
const age = parseInt(std.in.getline());
console.log(name, "is", age + 1, "next");
console.log(std.in.getline());
