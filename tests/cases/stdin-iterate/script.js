let sum = 0;
for (let line; (line = std.in.getline()) !== null; ) sum += Number(line);
console.log(sum);
