import * as std from "std";
const x = await Promise.resolve(1);
export default x;
