console.log("a\ud800b")
