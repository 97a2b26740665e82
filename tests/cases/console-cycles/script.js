const a = { name: "cyclic" };
a.self = a;
console.log(a);
console.log({ get bad() { throw new Error("getter"); } });
const { proxy, revoke } = Proxy.revocable({}, {});
revoke();
console.log(proxy);
console.log("end");
