const found = ["XMLHttpRequest", "WebSocket"].filter((name) => name in globalThis);
for (const name of Object.keys(os)) if (/socket|connect|listen|accept|recv|send/i.test(name)) found.push(name);
try {
  if (std.urlGet?.("http://127.0.0.1/") != null) found.push("urlGet");
} catch {}
console.log(JSON.stringify(found));
console.log(await fetch("http://127.0.0.1/").catch((error) => error.message));
