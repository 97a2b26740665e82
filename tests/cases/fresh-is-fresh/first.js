var x = 1;
Array.prototype.changed = true;
std.open("left", "w").close();
