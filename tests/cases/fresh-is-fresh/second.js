console.log(JSON.stringify(["x" in globalThis, "changed" in [], os.stat("left")[1] === 0]));
