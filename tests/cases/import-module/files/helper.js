import { name } from "./package/inner.js";
export const VALUE = 42;
export { name };
