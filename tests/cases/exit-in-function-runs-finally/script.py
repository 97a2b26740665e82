import sys


def f():
    try:
        sys.exit(2)
    finally:
        print("finally")


f()
