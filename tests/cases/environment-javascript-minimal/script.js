console.log(JSON.stringify(Object.keys(std.getenviron()).filter((k) => /^(PY|LC_|LANG|HOME|USER|SHELL|XDG|CARGO|RUST)/.test(k))));
