import numpy as np

rng = np.random.default_rng(42)
x = np.linspace(0, 10, 50)
y = 3.0 * x + 2.0 + rng.normal(scale=0.1, size=x.size)

A = np.column_stack([x, np.ones_like(x)])
coef, residuals, rank, sv = np.linalg.lstsq(A, y, rcond=None)
pred = A @ coef
r2 = 1 - ((y - pred) ** 2).sum() / ((y - y.mean()) ** 2).sum()
print(f"slope {coef[0]:.2f} intercept {coef[1]:.1f} rank {rank} r2 {r2:.3f}")
print(np.round(sv, 2), residuals.shape)

z = 0.5 * x**2 - x + 4
print(np.round(np.polyfit(x, z, 2), 6))
fit = np.polynomial.Polynomial.fit(x, z, 2).convert()
print(np.round(fit.coef, 6))
print(f"{np.corrcoef(x, y)[0, 1]:.3f}", np.round(np.roots([1, -3, 2]), 6))
