var first = Math.random();
