from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, classification_report, confusion_matrix
from sklearn.model_selection import cross_val_score, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

iris = load_iris()
X_train, X_test, y_train, y_test = train_test_split(
    iris.data, iris.target, test_size=0.2, random_state=42, stratify=iris.target
)
print(X_train.shape, X_test.shape)

clf = Pipeline([("scale", StandardScaler()), ("model", LogisticRegression(max_iter=1000))])
clf.fit(X_train, y_train)
y_pred = clf.predict(X_test)
print("accuracy", round(accuracy_score(y_test, y_pred), 2))
print(confusion_matrix(y_test, y_pred))
print(classification_report(y_test, y_pred, target_names=iris.target_names).splitlines()[0].split())
print("cv", cross_val_score(clf, iris.data, iris.target, cv=5).mean().round(2))
print(clf.predict_proba(X_test[:1]).sum().round(6), clf.named_steps["model"].coef_.shape)
