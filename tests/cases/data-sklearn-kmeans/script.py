import numpy as np
from sklearn.cluster import DBSCAN, KMeans
from sklearn.datasets import make_blobs
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score, silhouette_score

X, truth = make_blobs(n_samples=300, centers=[[0, 0, 0], [6, 6, 0], [0, 6, 6]], cluster_std=0.6, random_state=0)
km = KMeans(n_clusters=3, n_init=10, random_state=0).fit(X)
print(np.bincount(km.labels_).tolist(), adjusted_rand_score(truth, km.labels_))
print(sorted(tuple(int(v) for v in center.round()) for center in km.cluster_centers_ + 0.0))
print(round(silhouette_score(X, km.labels_), 1), km.predict([[6, 6, 0]])[0] == km.predict([[5.5, 6, 0]])[0])

inertia = [KMeans(k, n_init=3, random_state=0).fit(X).inertia_ for k in range(1, 5)]
print([a > b for a, b in zip(inertia, inertia[1:])])
pca = PCA(n_components=2)
Z = pca.fit_transform(X)
print(Z.shape, pca.explained_variance_ratio_.sum().round(2))
print(len(set(DBSCAN(eps=1.0).fit_predict(X)) - {-1}))
