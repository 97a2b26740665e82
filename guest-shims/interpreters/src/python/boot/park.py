# Parks the interpreter: the host unwinds it before it would exit.
os.putenv("PYTHONINSPECT", "1")  # makes the interpreter call isatty(0) before it finalizes
os.write(2, b"\0park")  # makes the host unwind at that call
