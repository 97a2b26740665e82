console.log(Object.keys(std.getenviron()).filter((n) => /^(CARGO|RUST|SSH|XDG|SHELL|USER|LOGNAME|PATH)/.test(n)).join() || "none")
