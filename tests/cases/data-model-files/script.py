import os
import pickle

import joblib
import numpy as np
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

rng = np.random.default_rng(5)
X = rng.uniform(-1, 1, size=(100, 2))
y = X[:, 0] ** 2 + 3 * X[:, 1]
model = make_pipeline(PolynomialFeatures(2), Ridge(alpha=1e-6)).fit(X, y)
print(round(model.score(X, y), 4))

os.makedirs("models", exist_ok=True)
print(joblib.dump(model, "models/model.joblib"))
joblib.dump({"model": model, "data": X}, "models/packed.joblib.gz", compress=3)
with open("models/model.pkl", "wb") as f:
    pickle.dump(model, f)

again = joblib.load("models/model.joblib")
packed = joblib.load("models/packed.joblib.gz")
with open("models/model.pkl", "rb") as f:
    other = pickle.load(f)
probe = np.array([[0.5, 0.5], [-0.25, 1.0]])
print(again.predict(probe).round(3), other.predict(probe).round(3))
print(np.array_equal(packed["data"], X), np.array_equal(model.predict(X), packed["model"].predict(X)))
np.savez_compressed("models/arrays.npz", X=X, y=y)
print(sorted(np.load("models/arrays.npz").files))
print(joblib.Parallel(n_jobs=2)(joblib.delayed(pow)(i, 2) for i in range(5)))
