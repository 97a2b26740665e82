let text = "";
for (let i = 0; i < 2000; i++) text += (i ? "," : "") + i;
console.log(text.length + 1);
console.log(text.slice(0, 9));
