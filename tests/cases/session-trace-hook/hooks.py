import sys

def hook(*event):
    raise ValueError("from the hook")

print("hooked")
sys.settrace(hook)
