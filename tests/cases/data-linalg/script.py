import numpy as np
from scipy import linalg

A = np.array([[4.0, 1, 0], [1, 3, 1], [0, 1, 2]])
b = np.array([1.0, 2, 3])
x = np.linalg.solve(A, b)
print(x.round(4), np.allclose(A @ x, b), round(np.linalg.det(A), 4))
w, v = np.linalg.eigh(A)
print(w.round(4), np.allclose(v @ np.diag(w) @ v.T, A))
values = np.linalg.eigvals(np.array([[0, -1], [1, 0]]))
print(sorted(values.round(4).tolist(), key=lambda z: z.imag))

u, s, vt = np.linalg.svd(np.arange(6).reshape(3, 2), full_matrices=False)
print(s.round(4), u.shape, vt.shape, np.linalg.matrix_rank(np.ones((3, 3))))
q, r = np.linalg.qr(A)
print(np.allclose(q @ r, A), np.allclose(np.linalg.cholesky(A) @ np.linalg.cholesky(A).T, A))
p, l, u = linalg.lu(A)
print(np.allclose(p @ l @ u, A), linalg.expm(np.zeros((2, 2))).tolist())
print(np.linalg.pinv(A[:, :2]).shape, round(np.linalg.norm(b), 4), round(np.linalg.cond(A), 3))
try:
    np.linalg.inv(np.ones((2, 2)))
except np.linalg.LinAlgError as error:
    print("LinAlgError:", error)
big = np.random.default_rng(3).normal(size=(200, 200))
print(np.allclose(np.linalg.inv(big) @ big, np.eye(200)), np.einsum("ij,jk->ik", A, A).trace())
