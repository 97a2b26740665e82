import os

import numpy as np
from joblib import Parallel, cpu_count, delayed
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.model_selection import cross_val_score

print(os.cpu_count(), cpu_count())
print(Parallel(n_jobs=-1)(delayed(np.sqrt)(i) for i in (1, 4, 9)))
print(Parallel(n_jobs=4, prefer="threads")(delayed(abs)(i) for i in (-1, -2)))
X, y = load_breast_cancer(return_X_y=True)
scores = cross_val_score(RandomForestClassifier(n_estimators=10, random_state=0), X, y, cv=3, n_jobs=-1)
print(scores.shape, scores.mean() > 0.9)
print(HistGradientBoostingClassifier(max_iter=10, random_state=0).fit(X, y).score(X, y) > 0.95)
