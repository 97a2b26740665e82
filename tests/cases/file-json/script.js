import * as std from "std";

const f = std.open("/app/data.json", "w+");
f.puts(JSON.stringify({ counter: 1 }));
f.close();
const f2 = std.open("/app/data.json", "r");
const txt = f2.readAsString();
f2.close();
console.log(JSON.parse(txt).counter);
