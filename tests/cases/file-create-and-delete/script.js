std.open("temp", "w").close();
os.remove("temp");
console.log(JSON.stringify(os.readdir(".")[0].filter((n) => n !== "." && n !== "..")));
