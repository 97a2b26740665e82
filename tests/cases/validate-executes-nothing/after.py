import os

print(os.path.exists("/app/made"))
