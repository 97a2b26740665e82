const items = [];
for (;;) items.push("x".repeat(10000) + items.length);
