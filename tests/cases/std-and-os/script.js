import * as moduleStd from "std";
import * as moduleOs from "os";

console.log(moduleStd.open === std.open, moduleOs.readdir === os.readdir);

// Streams.
const file = std.open("/app/data.txt", "w+");
file.puts("one\ntwo\nthree\n");
file.seek(4, std.SEEK_SET);
console.log(file.getline(), file.tell(), file.eof());
file.close();
console.log(JSON.stringify(std.loadFile("/app/data.txt")));

// Descriptors.
os.mkdir("/app/dir");
const fd = os.open("/app/dir/bytes", os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644);
console.log(os.write(fd, new Uint8Array([1, 2, 3, 4]).buffer, 1, 2), os.seek(fd, 0, std.SEEK_SET));
const back = new Uint8Array(4);
console.log(os.read(fd, back.buffer, 0, 4), back.join(), os.close(fd));

// Directories.
console.log(os.rename("/app/dir/bytes", "/app/dir/moved"), os.readdir("/app/dir")[0].sort().join());
console.log(os.stat("/app/dir/moved")[0].size, os.remove("/app/data.txt"), os.stat("/app/data.txt")[1] !== 0);
