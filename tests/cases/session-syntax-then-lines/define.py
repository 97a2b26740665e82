def f():
    raise ValueError("deep")
