var x = 7;
null.y;
