import matplotlib.pyplot as plt
import pandas as pd

figure, axes = plt.subplots()
axes.plot([1, 2])
plt.legend()
plt.close("all")
pd.to_datetime(["1 Jan", "2024-1-x"], errors="coerce")
