var x = 1;
throw new RangeError("no");
