import threading

try:
    threading.Thread(target=print, args=("ran",)).start()
except RuntimeError:
    print("refused")
lock = threading.Lock()
with lock:
    print([n * n for n in (1, 2, 3)])
