var x = 1;
f();
