import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.datasets import make_classification, make_regression
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.metrics import mean_absolute_error, r2_score, roc_auc_score
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

X, y = make_classification(n_samples=400, n_features=6, n_informative=3, n_redundant=0, shuffle=False, class_sep=1.5, random_state=1)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=1)
rf = RandomForestClassifier(n_estimators=30, n_jobs=-1, random_state=1).fit(X_train, y_train)
print("accuracy", rf.score(X_test, y_test) > 0.85, "auc", roc_auc_score(y_test, rf.predict_proba(X_test)[:, 1]) > 0.9)
importance = pd.Series(rf.feature_importances_, index=list("abcdef")).sort_values(ascending=False)
print(sorted(importance.index[:3]), round(importance.sum(), 6))

X, y = make_regression(n_samples=200, n_features=4, noise=1.0, random_state=2)
reg = RandomForestRegressor(n_estimators=30, random_state=2).fit(X[:150], y[:150])
print(r2_score(y[150:], reg.predict(X[150:])) > 0.7, mean_absolute_error(y[150:], reg.predict(X[150:])) > 0)

grid = GridSearchCV(DecisionTreeClassifier(random_state=0), {"max_depth": [1, 2, 3]}, cv=3, n_jobs=2)
df = pd.DataFrame({"age": [20, 30, 40, 50] * 6, "city": ["x", "y", "x", "z"] * 6})
target = [0, 1, 0, 1] * 6
prep = ColumnTransformer([("num", StandardScaler(), ["age"]), ("cat", OneHotEncoder(), ["city"])])
pipe = make_pipeline(prep, grid).fit(df, target)
print(pipe.predict(df[:4]).tolist(), grid.param_grid["max_depth"], pipe[-1].best_score_)
