import numpy as np
from scipy import stats

rng = np.random.default_rng(7)
a = rng.normal(10, 2, 60)
b = rng.normal(11.5, 2, 60)

t = stats.ttest_ind(a, b, equal_var=False)
print(f"welch t={t.statistic:.2f} significant={t.pvalue < 0.05}")
print(f"paired p<0.05: {stats.ttest_rel(a, b).pvalue < 0.05}")
u = stats.mannwhitneyu(a, b)
print("mann-whitney", u.pvalue < 0.05, "shapiro", stats.shapiro(a).pvalue > 0.01)

table = np.array([[20, 15], [10, 30]])
chi2, p, dof, expected = stats.chi2_contingency(table)
print(f"chi2 {chi2:.3f} p {p:.3f} dof {dof}", expected.round(2).tolist())
print(f"fisher {stats.fisher_exact(table).pvalue:.3f}")
r = stats.linregress([1, 2, 3, 4, 5], [2.1, 3.9, 6.2, 7.8, 10.1])
print(f"{r.slope:.3f} {r.intercept:.3f} {r.rvalue:.4f}")
print(stats.spearmanr([1, 2, 3, 4], [1, 3, 2, 4]).statistic.round(3), stats.kendalltau([1, 2, 3], [1, 3, 2]).statistic.round(3))
print(f"{stats.norm.cdf(1.96):.4f} {stats.norm.ppf(0.975):.4f} {stats.t.sf(2.0, 10):.4f} {stats.binom.pmf(3, 10, 0.5):.4f}")
print(f"anova {stats.f_oneway([1, 2, 3], [2, 3, 4], [5, 6, 7]).pvalue:.4f} ks {stats.kstest((a - 10) / 2, 'norm').pvalue > 0.05}")
low, high = stats.t.interval(0.95, len(a) - 1, loc=a.mean(), scale=stats.sem(a))
print(low < a.mean() < high, stats.zscore([1, 2, 3]).round(3).tolist(), stats.describe([1, 2, 3, 4]).variance.round(3))
print(stats.mode([1, 2, 2, 3]).mode, stats.iqr([1, 2, 3, 4]), stats.gmean([1, 10, 100]).round(6))
