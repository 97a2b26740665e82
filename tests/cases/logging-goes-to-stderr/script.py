import logging

logging.basicConfig()
logging.error("an error")
logging.getLogger("x").warning("a warning")
print("out")
