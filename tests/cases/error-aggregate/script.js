await Promise.any([Promise.reject(new Error("1")), Promise.reject(new Error("2"))]);
