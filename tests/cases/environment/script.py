import os

print(os.environ["GREETING"], os.environ["EMPTY"], os.getenv("UMLAUT"), os.getenv("UNSET", "none"), sep="|")
