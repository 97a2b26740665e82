import nothing from "./no_such_module.js";
