const x = 1 +
