console.log(std.in.readAsString().length)
