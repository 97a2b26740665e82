import numpy as np
from scipy import optimize

res = optimize.minimize(optimize.rosen, x0=[1.3, 0.7, 0.8], method="BFGS", jac=optimize.rosen_der)
print(res.success, res.x.round(3))
res = optimize.minimize(
    lambda v: (v[0] - 1) ** 2 + (v[1] - 2.5) ** 2,
    x0=[2, 0],
    method="SLSQP",
    bounds=[(0, None), (0, None)],
    constraints=({"type": "ineq", "fun": lambda v: v[0] - 2 * v[1] + 2},),
)
print(res.x.round(3), round(res.fun, 3))
print(optimize.minimize(optimize.rosen, [0, 0], method="Nelder-Mead", options={"maxiter": 500}).x.round(2))
print(optimize.minimize(optimize.rosen, [0, 0], method="L-BFGS-B").x.round(2))

print(round(optimize.brentq(np.cos, 0, 3), 4), optimize.fsolve(lambda x: x**2 - 2, 1.0).round(4))
lp = optimize.linprog(c=[-1, -2], A_ub=[[1, 1], [1, 3]], b_ub=[4, 6], bounds=(0, None))
print(lp.status, lp.x.round(3), lp.fun)

rng = np.random.default_rng(1)
x = np.linspace(0, 4, 40)
y = 2.5 * np.exp(-1.3 * x) + 0.5 + rng.normal(scale=0.01, size=40)
popt, pcov = optimize.curve_fit(lambda x, a, b, c: a * np.exp(-b * x) + c, x, y, p0=(1, 1, 0))
print(popt.round(1), pcov.shape)
rows, cols = optimize.linear_sum_assignment([[4, 1, 3], [2, 0, 5], [3, 2, 2]])
print(rows.tolist(), cols.tolist())
best = optimize.differential_evolution(lambda v: (v**2).sum(), [(-5, 5)] * 2, seed=1)
print(np.abs(best.x).max() < 1e-4)
