import { VALUE, name } from "./helper.js";

console.log(VALUE, name);
