import * as std from "std";
globalThis.shared = await Promise.resolve(2);
