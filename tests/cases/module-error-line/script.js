import * as std from "std";

await null;
throw new RangeError("in module");
