from package import name

VALUE = 42
