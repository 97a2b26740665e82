from fractions import Fraction


def solve(matrix, columns):
    """Returns the solution X of `matrix` X = `columns`, by Gaussian elimination, and the determinant."""
    n = len(matrix)
    rows = [[Fraction(x) for x in (*left, *right)] for left, right in zip(matrix, columns)]
    determinant = Fraction(1)
    for i in range(n):
        pivot = next((k for k in range(i, n) if rows[k][i]), None)
        if pivot is None:
            raise ArithmeticError("the matrix is singular")
        if pivot != i:
            rows[i], rows[pivot] = rows[pivot], rows[i]
            determinant = -determinant
        determinant *= rows[i][i]
        rows[i] = [x / rows[i][i] for x in rows[i]]
        for k in range(n):
            if k != i and rows[k][i]:
                rows[k] = [x - rows[k][i] * y for x, y in zip(rows[k], rows[i])]
    return [row[n:] for row in rows], determinant


def multiply(a, b):
    return [[sum(x * y for x, y in zip(row, column)) for column in zip(*b)] for row in a]


def show(name, matrix):
    print(f"{name} =")
    for row in matrix:
        print("  ", *(f"{str(x):>6}" for x in row))


a = [[2, 1, -1], [-3, -1, 2], [-2, 1, 2]]
unit = [[int(i == k) for k in range(3)] for i in range(3)]
inverse, determinant = solve(a, unit)
show("inverse", inverse)
print("determinant =", determinant)
print("solution =", *(x for [x] in solve(a, [[8], [-11], [-3]])[0]))
print("a times its inverse is the unit matrix:", multiply(a, inverse) == unit)

power = unit
for _ in range(20):
    power = multiply(power, [[1, 1, 0], [1, 0, 0], [0, 0, 1]])
print("Fibonacci:", power[0][1])
try:
    solve([[1, 2], [2, 4]], [[0], [0]])
except ArithmeticError as error:
    print("error:", error)
