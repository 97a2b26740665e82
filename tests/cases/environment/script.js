console.log([std.getenv("GREETING"), std.getenv("EMPTY"), std.getenv("UMLAUT"), std.getenv("UNSET") ?? "none"].join("|"));
