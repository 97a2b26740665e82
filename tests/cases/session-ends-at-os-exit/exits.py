import os

os._exit(6)
