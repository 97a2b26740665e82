const e = {}; if (std.open("/app/../etc/passwd", "r", e) === null) throw new Error(std.strerror(e.errno));
