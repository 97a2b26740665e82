import numpy as np
from scipy import integrate, interpolate

x = np.linspace(0, 2 * np.pi, 12)
y = np.sin(x)
print(np.interp([0.5, 1.5], x, y).round(3))
cubic = interpolate.CubicSpline(x, y)
print(cubic([0.5, 1.5]).round(3), cubic(1.0, 1).round(2))
linear = interpolate.interp1d(x, y, kind="linear", fill_value="extrapolate")
print(linear([0.5, 7.0]).round(3))
print(interpolate.PchipInterpolator(x, y)(np.pi).round(3))
tck = interpolate.splrep(x, y, s=0)
print(np.round(interpolate.splev([1.0, 2.0], tck), 2))

points = np.array([[0, 0], [0, 1], [1, 0], [1, 1], [0.5, 0.5]])
values = points.sum(axis=1)
print(interpolate.griddata(points, values, [[0.25, 0.25], [0.7, 0.1]], method="linear").round(3))
print(interpolate.RBFInterpolator(points, values, kernel="linear")([[0.5, 0.5]]).round(3))

print(round(integrate.quad(np.sin, 0, np.pi)[0], 6), round(integrate.simpson(y, x=x), 3), np.trapezoid([1, 2, 3]))
sol = integrate.solve_ivp(lambda t, y: -0.5 * y, (0, 4), [2.0], t_eval=[0, 2, 4], rtol=1e-8)
print(sol.success, sol.y[0].round(4))
