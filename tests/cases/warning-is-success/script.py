import warnings

warnings.warn("careful")
print("on")
