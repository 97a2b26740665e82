raise TypeError("bad type")
