import * as moduleStd from "std";
import * as moduleOs from "os";

console.log(moduleStd.open === std.open, moduleOs.readdir === os.readdir);
