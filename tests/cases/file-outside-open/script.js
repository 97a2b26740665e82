const error = {};
const file = std.open("/etc/passwd", "r", error);
if (file !== null) console.log("escaped");
// The last is what WASI calls `notcapable`.
const isPermission = [std.Error.EACCES, std.Error.EPERM, 76].includes(error.errno);
throw new Error(`/etc/passwd: ${isPermission ? "permission denied" : std.strerror(error.errno)}`);
