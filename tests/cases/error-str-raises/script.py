class Stubborn(Exception):
    def __str__(self):
        raise RuntimeError("no message from me")


raise Stubborn
