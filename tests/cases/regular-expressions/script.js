const m = /(?<y>\d{4})-(?<m>\d\d)-(?<d>\d\d)/.exec("on 2026-11-21 at noon");
console.log(m.groups.y + "-" + m.groups.m + "-" + m.groups.d);
console.log("word words word sword word".match(/\bword\b/g).length);
console.log("x--y  z".replace(/[^a-z]+/g, "_"));
