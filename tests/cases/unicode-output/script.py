print("grüße Ω 漢字 \U0001F600 e\u0301 שלום")
