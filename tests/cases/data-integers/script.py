import numpy as np
import pandas as pd

print(np.arange(100_000).sum(), np.array([100_000]) ** 2, np.array([3e9]).astype(int), np.prod([10] * 12))
print(repr(np.array([1, -1])), repr(np.full(2, -1)), repr(np.array(-1)), np.int_, np.dtype("int"), np.array([True]).sum().dtype)
print(np.add(100_000, 100_000) * 100_000, np.square(100_000), (np.array([True]) + 1).dtype, np.array([1], dtype="i2") + 1)
print(repr(np.where([True], np.array([1], dtype="i4"), np.int32(2))), np.array([1, 2], dtype="i4").sum().dtype, np.array([1], dtype="u1").sum().dtype)

two = np.array([0, 2])
print(np.repeat([7, 8], two), np.choose(two // 2, [[1, 2], [3, 4]]), np.add.reduceat(np.arange(8), two), np.take([5, 6, 7], two))
put = np.arange(3)
np.put(put, two, 9)
print(put, put[two], np.arange(4)[np.array([True, False, True, False])], np.split(np.arange(4), two))
print(repr(np.argsort([3, 1, 2])), repr(np.where(np.array([0, 1]))), repr(np.argmax([1, 5])), repr(np.bincount(two)))
print(np.unique([3, 1, 3], return_counts=True, return_inverse=True), repr(np.histogram([1, 2, 3], bins=2)[0]))
for use in (lambda at: np.arange(3)[at], lambda at: np.take(np.arange(3), at), lambda at: np.repeat(np.arange(1), at)):
    try:
        print("not refused:", use(np.array([2**32])))
    except IndexError as error:
        print("IndexError:", error)

np.random.seed(0)
print(np.random.randint(0, 2**40, 2), repr(np.random.permutation(3)), repr(np.random.binomial(10, 0.5, 2)))

frame = pd.DataFrame({"key": list("aba"), "value": np.array([100_000, 2, 3])})
print((frame.value**2).tolist(), frame.value.dtype, frame.groupby("key").value.sum().to_dict(), frame.iloc[two].value.tolist())
print(repr(pd.factorize(frame.key)[0]), frame.value.argsort().dtype, pd._libs.lib.maybe_indices_to_slice(np.array([1, 2, 3]), 5))
