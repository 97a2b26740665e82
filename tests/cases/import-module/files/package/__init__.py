name = "sub"
