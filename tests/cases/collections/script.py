from collections import Counter

print(*(f"{k}:{v}" for k, v in Counter("abcaba").most_common()))
print(sorted({3, 1, 2, 3}))
