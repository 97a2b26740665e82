const error = {};
const file = std.open("/etc/passwd", "r", error);
if (file !== null) console.log("escaped");
if (error.errno === 0) console.log("no reason");

throw new Error(`/etc/passwd: ${std.strerror(error.errno)}`);
