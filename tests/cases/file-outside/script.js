const text = std.loadFile("/etc/passwd"); if (text === null) throw new Error("cannot read /etc/passwd");
