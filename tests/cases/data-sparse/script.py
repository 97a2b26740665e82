import numpy as np
from scipy import sparse
from scipy.sparse import csgraph, linalg as sla

n = 1000
main = np.full(n, 2.0)
off = np.full(n - 1, -1.0)
A = sparse.diags([off, main, off], [-1, 0, 1], format="csr")
b = np.ones(n)
x = sla.spsolve(A.tocsc(), b)
print(A.shape, A.nnz, f"{A.nnz / n**2:.4f}", round(x.max(), 2), np.allclose(A @ x, b))
y, info = sla.cg(A, b, rtol=1e-10, maxiter=2000)
print(info, np.allclose(x, y, rtol=1e-4))
vals = sla.eigsh(A, k=3, sigma=0, return_eigenvectors=False)
print(sorted(vals.round(6).tolist()))

rows, cols, data = [0, 0, 1, 2], [1, 2, 2, 3], [7.0, 2.0, 1.0, 3.0]
g = sparse.coo_matrix((data, (rows, cols)), shape=(4, 4)).tocsr()
print(g.toarray())
dist = csgraph.dijkstra(g, indices=0)
print(dist, csgraph.connected_components(g, directed=False)[0])
print((g.T @ g).diagonal(), g[:, 2].toarray().ravel(), sparse.hstack([g, sparse.eye(4)]).shape)
lu = sla.splu(A.tocsc())
print(np.allclose(lu.solve(b), x))
