console.log("grüße Ω 漢字 \u{1F600} e\u0301 שלום")
