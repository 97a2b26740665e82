import numpy as np
import pandas as pd
import statsmodels.api as sm
import statsmodels.formula.api as smf

df = pd.read_csv("houses.csv")
X = sm.add_constant(df[["area", "rooms"]])
model = sm.OLS(df["price"], X).fit()
print(model.params.round(3).to_dict())
print(model.bse.round(3).to_dict())
print(round(model.rsquared, 4), round(model.rsquared_adj, 4), int(model.df_resid), model.f_pvalue < 0.01)

formula = smf.ols("price ~ area + C(zone)", data=df).fit()
print(formula.params.round(3).to_dict())
table = sm.stats.anova_lm(formula, typ=2)
print(table.index.tolist(), table["df"].tolist())
print(formula.conf_int().round(2).loc["area"].tolist())
pred = formula.predict(pd.DataFrame({"area": [80, 100], "zone": ["n", "s"]}))
print(pred.round(2).tolist())
text = model.summary().as_text()
print("OLS Regression Results" in text, "R-squared:" in text)

y = (df["price"] > 200).astype(int)
logit = sm.GLM(y, sm.add_constant(df["rooms"]), family=sm.families.Binomial()).fit()
print(logit.params.round(2).to_dict())
