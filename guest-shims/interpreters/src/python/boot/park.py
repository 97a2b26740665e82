# A command ends with its script, unless it is unwound before.
os.putenv("PYTHONINSPECT", "1")  # the interpreter asks isatty(0) after this, before it finalizes
os.write(2, b"\0park")  # and is unwound there
