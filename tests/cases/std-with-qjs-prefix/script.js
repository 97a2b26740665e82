import * as s from "qjs:std";

console.log(typeof s.open === "function");
