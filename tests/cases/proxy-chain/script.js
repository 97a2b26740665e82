let p = {};
for (let i = 0; i < 100000; i++) p = new Proxy(p, {});
try {
  p.x;
  console.log("through");
} catch (e) {
  console.log(e.name);
}
