os.mkdir("d");
for (let i = 0; i < 500; i++) std.open(`d/file-with-a-rather-long-name-${i}`, "w").close();
const names = os.readdir("d")[0].filter((n) => n !== "." && n !== "..");
console.log(names.length, new Set(names).size);
for (const n of names) os.remove("d/" + n);
os.remove("d");
