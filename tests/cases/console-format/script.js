console.log("%d of %s: 100%%", 7, "x");
