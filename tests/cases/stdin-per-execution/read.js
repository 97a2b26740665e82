console.log(std.in.getline())
