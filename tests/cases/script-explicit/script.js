import * as std from "std";
