import nothing from "./nowhere.js";
