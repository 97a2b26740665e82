import gc
import weakref


class Node: ...


a = Node()
a.self = a
ref = weakref.ref(a)
del a
gc.collect()
print(ref())
